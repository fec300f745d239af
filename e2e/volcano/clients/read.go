package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"volcano.sh/volcano/pkg/scheduler/api"
)

const longestLine = 64 << 20

// line is one reply, and the client that gets it: "volcano" or "kube".
type line struct {
	Client string `json:"client"`
	Reply  string `json:"reply"`
}

// understood is what a client made of a reply.
type understood struct {
	Scores map[string]float64           `json:"scores"`
	List   *extenderv1.HostPriorityList `json:"list"`
	Failed bool                         `json:"failed"`
	Error  string                       `json:"error"`
}

// readReplies says of each reply on standard input what its client makes of it.
func readReplies(_ []string) error {
	stand := newAdvisor()
	defer stand.Close()
	volcano := volcanoAsking(stand.URL)
	kube, err := kubeAsking(stand.URL, true)
	if err != nil {
		return err
	}
	lines, out := bufio.NewScanner(os.Stdin), bufio.NewWriter(os.Stdout)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var one line
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return fmt.Errorf("a line of standard input: %w", err)
		}
		stand.reply = []byte(one.Reply)
		said := understood{}
		if one.Client == "kube" {
			said.List, err = kube(nil, nil)
		} else {
			said.Scores, err = volcano(&api.TaskInfo{}, nil)
		}
		if err != nil {
			said = understood{Failed: true, Error: err.Error()}
		}
		if err := json.NewEncoder(out).Encode(said); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}
