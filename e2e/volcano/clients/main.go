// Command clients runs the released clients of both extender protocols: Volcano's extender plugin in a session of its
// scheduler, and kube-scheduler's HTTPExtender. Nothing of them is written again here: what they send is recorded, what
// they make of a reply is what they return.
//
//	clients requests FOLDER   writes what they send, one file a request
//	clients read              reads replies from standard input, one a line, and prints what they understand
//	clients allocate          lets Volcano place the pods of a case from standard input
package main

import (
	"fmt"
	"os"
)

func main() {
	commands := map[string]func([]string) error{"requests": writeRequests, "read": readReplies, "allocate": allocatePods}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: clients requests FOLDER | read | allocate")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
