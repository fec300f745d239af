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

// line is one reply, the client that gets it, "volcano", "kube", or "filter" and "filter-nodes" for kube-scheduler's
// filter by names and by whole nodes, and the names of the nodes that a filter was asked about.
type line struct {
	Client  string   `json:"client"`
	Offered []string `json:"offered"`
	Reply   string   `json:"reply"`
}

// understood is what a client made of a reply.
type understood struct {
	Scores map[string]float64           `json:"scores"`
	List   *extenderv1.HostPriorityList `json:"list"`
	Passed *passed                      `json:"passed"`
	Failed bool                         `json:"failed"`
	Error  string                       `json:"error"`
}

// asking is what each client makes of the reply that it gets next.
func asking(url string) (map[string]func([]string) (understood, error), error) {
	volcano := volcanoAsking(url)
	kube, err := kubeAsking(url, true)
	if err != nil {
		return nil, err
	}
	ask := map[string]func([]string) (understood, error){
		"volcano": func(_ []string) (said understood, err error) {
			said.Scores, err = volcano(&api.TaskInfo{}, nil)
			return said, err
		},
		"kube": func(_ []string) (said understood, err error) {
			said.List, err = kube(nil, nil)
			return said, err
		},
	}
	for client, names := range map[string]bool{"filter": true, "filter-nodes": false} {
		filter, err := kubeFiltering(url, names)
		if err != nil {
			return nil, err
		}
		ask[client] = func(offered []string) (said understood, err error) {
			said.Passed, err = filter(offered)
			return said, err
		}
	}
	return ask, nil
}

// readReplies says of each reply on standard input what its client makes of it.
func readReplies(_ []string) error {
	stand := newAdvisor()
	defer stand.Close()
	ask, err := asking(stand.URL)
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
		client, there := ask[one.Client]
		if !there {
			return fmt.Errorf("no client is called %q", one.Client)
		}
		said, err := client(one.Offered)
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
