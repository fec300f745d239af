package cohabit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	sendEvery, lookEvery = 50 * time.Millisecond, time.Second
	// how long an advisor that does not answer is left alone, and a table waits for the assumed pods that belong to it
	pauseAfter, holdTable            = time.Second, 5 * time.Second
	keptFor                          = 2 * time.Minute // by the advisor, if a pod is not observed
	maxWaiting, maxAtOnce            = 10_000, 1_000
	maxAsked, maxTries               = 64, 5 // nodes of a request, requests for a node
	maxName, maxGroup, maxReplyBytes = 253, 512, 64 << 20
	assumedPods, query               = "/assumed-pods", "/assumed-pods/query"
)

// message is a BookingMessage of advisor/api/scheduler/peers.py.
type message struct {
	class
	UID    string `json:"uid"`
	Node   string `json:"node"`
	AgeUs  int64  `json:"age_us,omitempty"`
	Group  string `json:"group,omitempty"`
	Left   bool   `json:"left,omitempty"`
	at     time.Time
	before *message // what a pod that left had reserved; nil where that is not known
}

// reply is an AssumedReply of the same module: what the table and all assumed pods come to.
type reply struct {
	Version int64    `json:"version"`
	Bundle  string   `json:"bundle"`
	Classes []listed `json:"classes"`
	Assumed []int    `json:"assumed"`
	Nodes   []column `json:"nodes"`
}

func (r *reply) isOf(t *table) bool {
	return t != nil && r.Version == t.Version && r.Bundle == t.Bundle && slices.Equal(r.Classes, t.Classes)
}

// put lines a message up; it never waits, and drops what is too much.
func (p *Plugin) put(one *message) {
	longest := max(len(one.UID), len(one.Node), len(one.App), len(one.Team))
	if one.UID == "" || one.Node == "" || longest > maxName || len(one.Group) > maxGroup {
		dropped.WithLabelValues("invalid").Inc()
	} else if len(p.waiting) >= maxWaiting {
		dropped.WithLabelValues("queue_full").Inc()
	} else {
		p.waiting = append(p.waiting, one)
	}
}

// look reads the table if it is newer.
func (p *Plugin) look(context.Context) {
	found, err := p.file.newer()
	problem := fmt.Sprint(err)
	if err != nil && problem != p.file.reported {
		failed.WithLabelValues("table").Inc()
		p.log.Error(err, "Cannot read the score table; the one before stays", "file", p.file.path)
	}
	p.file.reported = problem
	p.take(found)
}

// take scores by a newer table once the advisor has sent the assumed pods that belong to it; the first one at once.
func (p *Plugin) take(found *table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found != nil {
		if p.next == nil {
			p.nextAt = p.now()
		}
		p.next = found
	}
	if p.next != nil && (p.scores == nil || p.scores.table != p.next && p.now().Sub(p.nextAt) > holdTable) {
		p.scores = newScores(p.next)
		p.recount(true, nil)
	}
}

// recount adds what the advisor has not heard of: to all columns, or to those that came from it.
func (p *Plugin) recount(all bool, columns []column) {
	for _, one := range p.waiting {
		sign := 1
		if one.Left {
			one, sign = one.before, -1
		}
		here := func(of column) bool { return one != nil && of.Node == one.Node }
		p.count(one, sign, all || slices.ContainsFunc(columns, here))
	}
}

// exchange sends what waits, and asks for columns at every other turn.
func (p *Plugin) exchange(context.Context) {
	if p.now().Before(p.until) {
		return
	}
	err := p.send()
	if p.turn++; err == nil && p.turn%2 == 0 {
		err = p.ask()
	}
	if err != nil {
		failed.WithLabelValues("request").Inc()
		p.until = p.now().Add(pauseAfter)
	}
	if broken := err != nil; broken != p.broken {
		p.broken = broken
		p.log.Info("Exchange of assumed pods", "advisor", p.args.Advisor, "works", !broken, "err", err)
	}
}

// send posts the oldest messages; they wait until the advisor has taken or refused them.
func (p *Plugin) send() error {
	p.mu.Lock()
	for len(p.waiting) > 0 && p.now().Sub(p.waiting[0].at) > keptFor {
		p.waiting = p.waiting[1:]
		dropped.WithLabelValues("expired").Inc()
	}
	batch := slices.Clone(p.waiting[:min(len(p.waiting), maxAtOnce)])
	for _, one := range batch {
		one.AgeUs = max(p.now().Sub(one.at).Microseconds(), 0)
		p.rough[one.Node] = 0
	}
	p.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	refused, err := p.post(assumedPods, batch, nil)
	if refused { // and would be again
		dropped.WithLabelValues("refused").Add(float64(len(batch)))
	} else if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.Clone(p.waiting[len(batch):])
	return nil
}

// ask brings columns of nodes whose assumed pods changed; of all nodes with assumed pods where a newer table waits.
func (p *Plugin) ask() error {
	names := make([]string, 0, maxAsked)
	p.mu.Lock()
	next := p.next
	for node, tries := range p.rough {
		if next != nil || len(names) == maxAsked {
			break
		}
		names = append(names, node)
		if p.rough[node] = tries + 1; tries+1 >= maxTries {
			delete(p.rough, node)
		}
	}
	p.mu.Unlock()
	if next != nil {
		names = append(names, "-") // no node: only whether the advisor has this table too
	} else if len(names) == 0 {
		return nil
	}
	said := &reply{}
	_, err := p.post(query, names, said)
	whole := err == nil && said.isOf(next)
	if whole {
		said = &reply{}
		_, err = p.post(query, []string{}, said)
	}
	if err == nil {
		p.hear(said, whole)
	}
	return err
}

// hear takes the advisor's columns; those of another table than ours are asked for again.
func (p *Plugin) hear(said *reply, whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if whole && said.isOf(p.next) {
		p.scores, p.next = newScores(p.next), nil
	} else if whole || p.scores == nil || !said.isOf(p.scores.table) {
		return
	}
	for _, one := range said.Nodes {
		p.scores.set(one)
	}
	copy(p.scores.assumed, said.Assumed)
	p.recount(whole, said.Nodes)
}

// post sends JSON, and reads the reply into `said` where there is one; whether the advisor refused the content.
func (p *Plugin) post(path string, content, said any) (bool, error) {
	body, _ := json.Marshal(content) // of strings and numbers: it cannot fail
	got, err := p.client.Post(p.args.Advisor+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	defer got.Body.Close()
	if got.StatusCode >= http.StatusMultipleChoices {
		return got.StatusCode == http.StatusBadRequest, fmt.Errorf("status %d", got.StatusCode)
	}
	if said != nil {
		err = json.NewDecoder(io.LimitReader(got.Body, maxReplyBytes)).Decode(said)
	}
	return false, err
}
