// Package cohabit is a plugin of kube-scheduler, see docs/scheduler-plugin.md.
package cohabit

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"
)

// Name of the plugin in a KubeSchedulerConfiguration.
const Name = "Cohabit"

const (
	stateKey                 fwk.StateKey = "cohabit.points"
	pointsPerScore, maxAhead              = 10, 300 * time.Second // a table of the future would never grow old
)

// Args of the plugin.
type Args struct {
	// TableFile is the absolute path of the score table, COHABIT_ADVISOR__SCORE_TABLE_FILE of the advisor.
	TableFile string `json:"tableFile"`
	// Advisor is the address of the advisor's extender API, on loopback.
	Advisor string `json:"advisor"`
	// MaxTableAgeSeconds is the age of the table beyond which nothing is scored.
	MaxTableAgeSeconds int64 `json:"maxTableAgeSeconds"`
}

var (
	skipped = counter("cohabit_plugin_skipped_pods_total", "Pods without scores, by reason.", "reason")
	failed  = counter("cohabit_plugin_failures_total", "Failed table reads and requests to the advisor.", "of")
	dropped = counter("cohabit_plugin_dropped_messages_total", "Messages that the advisor did not get.", "reason")
)

func counter(name, help, label string) *metrics.CounterVec {
	made := metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help}, []string{label})
	legacyregistry.MustRegister(made)
	return made
}

// Plugin scores nodes by the advisor's table, and counts the pods that it reserves at once.
type Plugin struct {
	args   Args
	now    func() time.Time
	log    klog.Logger
	client *http.Client
	file   tableFile // of the goroutine that looks
	turn   int       // of the one that exchanges, as the next two
	broken bool
	until  time.Time // no request before

	mu       sync.Mutex          // guards what follows
	scores   *scores             // nil before the first table
	next     *table              // a newer table, whose assumed pods the advisor has not sent yet; else nil
	nextAt   time.Time           // since when there is one
	reserved map[string]*message // pods that may still be unreserved
	waiting  []*message          // not sent yet, oldest first
	rough    map[string]int      // nodes whose costs the advisor may know better, and how often it was asked
}

// New starts the plugin; it ends with the context.
func New(ctx context.Context, given apiruntime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	args := Args{Advisor: "http://127.0.0.1:8081", MaxTableAgeSeconds: 120}
	if content, ok := given.(*apiruntime.Unknown); ok {
		if err := yaml.UnmarshalStrict(content.Raw, &args); err != nil {
			return nil, fmt.Errorf("args of plugin %s: %w", Name, err)
		}
	}
	address, err := url.Parse(args.Advisor)
	if err != nil || address.Scheme != "http" || address.Path != "" || !net.ParseIP(address.Hostname()).IsLoopback() {
		return nil, fmt.Errorf("plugin %s: advisor %q is not http:// with a loopback address and a port", Name, args.Advisor)
	}
	if !filepath.IsAbs(args.TableFile) || args.MaxTableAgeSeconds < 1 || args.MaxTableAgeSeconds > 86400 {
		return nil, fmt.Errorf("plugin %s: tableFile %q is not an absolute path, or maxTableAgeSeconds %d not in 1..86400",
			Name, args.TableFile, args.MaxTableAgeSeconds)
	}
	p := newPlugin(args, time.Now, klog.FromContext(ctx))
	go wait.UntilWithContext(ctx, p.look, lookEvery)
	go wait.UntilWithContext(ctx, p.exchange, sendEvery)
	return p, nil
}

func newPlugin(args Args, now func() time.Time, log klog.Logger) *Plugin {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{}, // no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Plugin{args: args, now: now, log: log, client: client, file: tableFile{path: args.TableFile},
		reserved: map[string]*message{}, rough: map[string]int{}}
}

// Name of the plugin.
func (p *Plugin) Name() string { return Name }

// PreScore fixes the points of all nodes for one pod; without a recent table nothing is scored.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	of, why := identify(pod), "no_table"
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.scores; s != nil {
		age, row := p.now().Sub(time.UnixMicro(s.AsOfUs)), s.rowOf(of)
		if why = "stale"; row < 0 {
			why = "no_class"
		} else if age <= time.Duration(p.args.MaxTableAgeSeconds)*time.Second && age >= -maxAhead {
			state.Write(stateKey, s.answerFor(row, nodes, s.assumed[row] > 0))
			return nil
		}
	}
	skipped.WithLabelValues(why).Inc()
	return fwk.NewStatus(fwk.Skip)
}

// Score gives a node its points.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, _ := state.Read(stateKey)
	points, _ := data.(answer)
	return pointsPerScore * points[node.Node().Name], nil
}

// ScoreExtensions are none: points are absolute.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// Clone shares the points, which never change.
func (a answer) Clone() fwk.StateData { return a }

// Reserve assumes the pod on its node at once, and lets the advisor know soon.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	one := &message{class: identify(pod), UID: string(pod.UID), Node: node, Group: group(pod), at: p.now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(p.reserved[one.UID], -1, true)
	p.count(one, 1, true)
	p.reserved[one.UID] = one
	p.put(one)
	return nil
}

// Unreserve takes a reservation back, here and at the advisor, which may know of one that this process does not.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.reserved[string(pod.UID)]
	p.count(before, -1, true)
	delete(p.reserved, string(pod.UID))
	p.put(&message{UID: string(pod.UID), Node: node, Left: true, at: p.now(), before: before})
}

// PostBind forgets a reservation that can no longer be taken back; the pod stays assumed.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reserved, string(pod.UID))
}

// SignPod signs a pod by what its points depend on. Those of a member of a group depend on where the others are.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if group(pod) != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, "a pod of a group")
	}
	return []fwk.SignFragment{{Key: "cohabit.class", Value: identify(pod)}}, nil
}

// count adds a pod, if any, to its class, and to the costs of its node where those lack it; sign -1 takes it off.
func (p *Plugin) count(one *message, sign int, costs bool) {
	if p.scores == nil || one == nil {
		return
	}
	if row := p.scores.rowOf(one.class); row >= 0 {
		p.scores.assumed[row] = max(p.scores.assumed[row]+sign, 0)
		if costs {
			p.scores.arrive(one.Node, row, float64(sign))
		}
	}
}
