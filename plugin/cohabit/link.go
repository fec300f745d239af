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
	sendEvery, lookEvery  = 50 * time.Millisecond, time.Second
	pauseAfter            = time.Second     // how long an advisor that does not answer is left alone
	holdTable             = 5 * time.Second // how long a table waits for the assumed pods that belong to it
	keptFor               = 2 * time.Minute // how long the advisor keeps a pod that is not observed
	maxWaiting, maxAtOnce = 10_000, 1_000
	maxAsked, maxTries    = 64, 5
	maxName, maxGroup     = 253, 512
	maxReplyBytes         = 64 << 20
	assumedPods, query    = "/assumed-pods", "/assumed-pods/query"
)

// linkState is what the exchange with the advisor remembers from one turn to the next.
type linkState struct {
	turn   int
	broken bool
	until  time.Time // no request before
}

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
	Classes classes  `json:"classes"`
	Assumed []int    `json:"assumed"`
	Nodes   []column `json:"nodes"`
}

func (r *reply) isOf(t *table) bool {
	return t != nil && r.Version == t.Version && r.Bundle == t.Bundle && slices.Equal(r.Classes, t.Classes)
}

// put lines a message up; it never waits, and drops what is too much.
func (p *Plugin) put(one message) {
	switch {
	case one.UID == "" || one.Node == "" || max(len(one.UID), len(one.Node), len(one.App), len(one.Team)) > maxName ||
		len(one.Group) > maxGroup:
		dropped.WithLabelValues("invalid").Inc()
	case len(p.waiting) >= maxWaiting:
		dropped.WithLabelValues("queue_full").Inc()
	default:
		p.waiting = append(p.waiting, one)
	}
}

// look reads the table if it is newer.
func (p *Plugin) look(context.Context) {
	found, err := p.file.newer()
	if err != nil && err.Error() != p.file.reported {
		failed.WithLabelValues("table").Inc()
		p.log.Error(err, "Cannot read the score table; the one before stays", "file", p.file.path)
	}
	if p.file.reported = ""; err != nil {
		p.file.reported = err.Error()
	}
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
		p.recount(nil, true)
	}
}

// recount adds what the advisor has not heard of to columns that came from it, or to all.
func (p *Plugin) recount(columns []column, all bool) {
	for _, one := range p.waiting {
		sign := 1
		if one.Left {
			if sign = -1; one.before == nil {
				continue
			}
			one = *one.before
		}
		here := slices.ContainsFunc(columns, func(of column) bool { return of.Node == one.Node })
		p.count(one, sign, all || here)
	}
}

// exchange sends what waits, and asks for columns at every other turn.
func (p *Plugin) exchange(ctx context.Context) {
	if p.now().Before(p.link.until) {
		return
	}
	p.link.turn++
	err := p.send(ctx)
	if err == nil && p.link.turn%2 == 0 {
		err = p.ask(ctx)
	}
	if err != nil {
		failed.WithLabelValues("request").Inc()
		p.link.until = p.now().Add(pauseAfter)
	}
	if broken := err != nil; broken != p.link.broken {
		p.link.broken = broken
		p.log.Info("Exchange of assumed pods", "advisor", p.args.Advisor, "works", !broken, "err", err)
	}
}

// send posts the oldest messages; they wait until the advisor has taken or refused them.
func (p *Plugin) send(ctx context.Context) error {
	p.mu.Lock()
	for len(p.waiting) > 0 && p.now().Sub(p.waiting[0].at) > keptFor {
		p.waiting = p.waiting[1:]
		dropped.WithLabelValues("expired").Inc()
	}
	batch := slices.Clone(p.waiting[:min(len(p.waiting), maxAtOnce)])
	p.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	for i, one := range batch {
		batch[i].AgeUs = max(p.now().Sub(one.at).Microseconds(), 0)
	}
	refused, err := p.post(ctx, assumedPods, batch, nil)
	if err != nil && !refused { // refused ones would be refused again
		return err
	}
	if refused {
		dropped.WithLabelValues("refused").Add(float64(len(batch)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.Clone(p.waiting[len(batch):])
	for _, one := range batch {
		p.rough[one.Node] = 0
	}
	return nil
}

// ask brings columns of nodes whose assumed pods changed; of all nodes with assumed pods where a newer table waits.
func (p *Plugin) ask(ctx context.Context) error {
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
	if next == nil && len(names) == 0 {
		return nil
	}
	if next != nil { // of all nodes only once the advisor has this table too
		var probe reply
		if _, err := p.post(ctx, query, []string{"-"}, &probe); err != nil || !probe.isOf(next) {
			return err
		}
	}
	var said reply
	if _, err := p.post(ctx, query, names, &said); err != nil {
		return err
	}
	p.hear(&said, next != nil)
	return nil
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
	p.recount(said.Nodes, whole)
}

// post sends JSON, and reads the reply into `said` where there is one; whether the advisor refused the content.
func (p *Plugin) post(ctx context.Context, path string, content, said any) (bool, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.args.Advisor+path, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	got, err := p.client.Do(request)
	if err != nil {
		return false, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxReplyBytes))
	if err == nil && got.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("status %d", got.StatusCode)
	} else if err == nil && said != nil {
		err = json.Unmarshal(text, said)
	}
	return got.StatusCode == http.StatusBadRequest, err
}
