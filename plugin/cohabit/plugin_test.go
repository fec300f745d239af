package cohabit

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

var (
	_ fwk.PreScorePlugin = &Plugin{}
	_ fwk.ScorePlugin    = &Plugin{}
	_ fwk.ReservePlugin  = &Plugin{}
	_ fwk.PostBindPlugin = &Plugin{}
	_ fwk.SignPlugin     = &Plugin{}
)

const somewhere = "http://127.0.0.1:1"

func testPlugin(advisor string) *Plugin {
	args := Args{TableFile: "/nowhere", Advisor: advisor, MaxTableAgeSeconds: 120}
	return newPlugin(args, time.Now, klog.Background())
}

func testPod(uid, app string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), Namespace: "default",
		Labels: map[string]string{"app": app}}}
}

// nodeInfo is all of one that the plugin asks for.
type nodeInfo struct {
	fwk.NodeInfo
	node *v1.Node
}

func (n nodeInfo) Node() *v1.Node { return n.node }

func nodeInfos(names []string) []fwk.NodeInfo {
	var found []fwk.NodeInfo
	for _, name := range names {
		found = append(found, nodeInfo{node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	return found
}

// cycleState is all of one that the plugin asks for.
type cycleState struct {
	fwk.CycleState
	data sync.Map
}

func (c *cycleState) Write(key fwk.StateKey, data fwk.StateData) { c.data.Store(key, data) }

func (c *cycleState) Read(key fwk.StateKey) (fwk.StateData, error) {
	if found, ok := c.data.Load(key); ok {
		return found.(fwk.StateData), nil
	}
	return nil, fwk.ErrNotFound
}

func parsed(t testing.TB, content []byte) *table {
	t.Helper()
	found, err := parseTable(content)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// replyOf is an advisor's answer without assumed pods.
func replyOf(t *table) *reply {
	return &reply{Version: t.Version, Bundle: t.Bundle, Classes: t.Classes, Assumed: make([]int, len(t.Classes))}
}

func score(t testing.TB, p *Plugin, pod *v1.Pod, nodes []fwk.NodeInfo) []int64 {
	t.Helper()
	state := &cycleState{}
	if status := p.PreScore(context.Background(), state, pod, nodes); !status.IsSuccess() {
		return nil
	}
	var found []int64
	for _, node := range nodes {
		points, status := p.Score(context.Background(), state, pod, node)
		if !status.IsSuccess() {
			t.Error(status)
		}
		found = append(found, points)
	}
	return found
}

func TestWithoutARecentTableNothingIsScored(t *testing.T) {
	p, nodes := testPlugin(somewhere), nodeInfos([]string{"n0", "n1", "elsewhere"})
	if got := score(t, p, testPod("u", "web"), nodes); got != nil {
		t.Fatal("scored without a table", got)
	}
	for age, scored := range map[time.Duration]bool{0: true, time.Minute: true, 3 * time.Minute: false, -time.Hour: false} {
		p = testPlugin(somewhere)
		p.take(parsed(t, flatTable(1, time.Now().Add(-age), 2, 7)))
		if got := score(t, p, testPod("u", "web"), nodes); (got != nil) != scored {
			t.Fatalf("a table %v old gave %v", age, got)
		}
	}
}

func TestScoresAreTenTimesThePointsAndOneNodeIsSingledOut(t *testing.T) {
	p, nodes := testPlugin(somewhere), nodeInfos([]string{"n0", "n1", "elsewhere"})
	p.take(parsed(t, flatTable(1, time.Now(), 3, 7)))
	for i, want := range [][]int64{{70, 70, 70}, {70, 60, 60}} {
		for k, got := range score(t, p, testPod("u", "web"), nodes) {
			if got != want[k] {
				t.Fatalf("node %d of try %d has %d", k, i, got)
			}
		}
		p.Reserve(context.Background(), nil, testPod("other", "web"), "n2")
	}
}

func TestUnreserveTakesBackOnceAndWhatWasNeverReserved(t *testing.T) {
	p := testPlugin(somewhere)
	p.take(testTable(t))
	before := append([]float64(nil), p.scores.costs...)
	pod := testPod("u", "web")
	p.Unreserve(context.Background(), nil, pod, "n0")
	p.Reserve(context.Background(), nil, pod, "n0")
	p.Reserve(context.Background(), nil, pod, "n1") // moved
	p.Unreserve(context.Background(), nil, pod, "n1")
	p.Unreserve(context.Background(), nil, pod, "n1")
	for i := range before {
		if math.Abs(p.scores.costs[i]-before[i]) > 1e-6 {
			t.Fatalf("cost %d is %v, not %v", i, p.scores.costs[i], before[i])
		}
	}
	if len(p.waiting) != 5 || len(p.reserved) != 0 || p.scores.assumed[p.scores.rowOf(class{App: "web"})] != 0 {
		t.Fatal(p.waiting, p.reserved, p.scores.assumed)
	}
}

func TestTheAdvisorHearsEverythingInOrderAndItsColumnsAreTaken(t *testing.T) {
	var heard []message
	web := 2
	table := parsed(t, flatTable(1, time.Now(), 3, 7))
	advisor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == assumedPods {
			var batch []message
			if err := json.NewDecoder(r.Body).Decode(&batch); err != nil {
				t.Error(err)
			}
			heard = append(heard, batch...)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		cost := make([]byte, 8*3)
		binary.LittleEndian.PutUint64(cost[8*web:], math.Float64bits(1.25))
		said := map[string]any{"version": 1, "bundle": "b", "classes": []any{[]any{"", false, ""}, []any{"", true, ""},
			[]any{"web", false, ""}}, "assumed": []int{0, 0, 4}, "nodes": []column{{"n1", []byte{10, 10, 5}, cost, 2}}}
		if err := json.NewEncoder(w).Encode(said); err != nil {
			t.Error(err)
		}
	}))
	defer advisor.Close()
	p, ctx := testPlugin(advisor.URL), context.Background()
	p.take(table)
	p.Reserve(ctx, nil, testPod("a", "web"), "n1")
	p.Reserve(ctx, nil, testPod("b", "never-heard-of"), "n2")
	p.Unreserve(ctx, nil, testPod("a", "web"), "n1")
	if err := p.send(); err != nil {
		t.Fatal(err)
	}
	if len(heard) != 3 || heard[0].App != "web" || heard[1].App != "never-heard-of" || !heard[2].Left || len(p.waiting) != 0 {
		t.Fatal(heard, p.waiting)
	}
	p.Reserve(ctx, nil, testPod("c", "web"), "n0")
	if err := p.ask(); err != nil {
		t.Fatal(err)
	}
	if p.next != nil || p.scores.costs[web*3+1] != 1.25 || p.scores.points[web*3+1] != 5 || p.scores.fixes[1] != 2 {
		t.Fatal(p.scores)
	}
	if p.scores.assumed[web] != 5 {
		t.Fatal("what waits does not count", p.scores.assumed)
	}
}

func TestAnAdvisorThatIsAwayBlocksNothing(t *testing.T) {
	p, ctx := testPlugin(somewhere), context.Background()
	p.take(parsed(t, flatTable(1, time.Now(), 3, 7)))
	began := time.Now()
	for range maxWaiting + 500 {
		p.Reserve(ctx, nil, testPod("u", "web"), "n1")
	}
	if took := time.Since(began); took > 5*time.Second || len(p.waiting) != maxWaiting {
		t.Fatal(took, len(p.waiting))
	}
	if p.send() == nil || len(p.waiting) != maxWaiting {
		t.Fatal("messages went nowhere")
	}
	p.now = func() time.Time { return began.Add(keptFor + time.Minute) }
	if p.send() != nil || len(p.waiting) != 0 {
		t.Fatal("messages wait longer than pods are assumed", len(p.waiting))
	}
}

func TestANewerTableWaitsForItsAssumedPodsButNotForLong(t *testing.T) {
	now := time.Now()
	p := testPlugin(somewhere)
	p.now = func() time.Time { return now }
	one, other := parsed(t, flatTable(1, now, 3, 7)), parsed(t, flatTable(2, now, 3, 3))
	p.take(one)
	p.hear(replyOf(one), true)
	p.take(other)
	p.hear(replyOf(one), true)
	if p.scores.Version != 1 {
		t.Fatal("taken too early")
	}
	p.hear(replyOf(other), true)
	if p.scores.Version != 2 || p.next != nil {
		t.Fatal("not taken")
	}
	p.take(one)
	now = now.Add(holdTable + time.Second)
	p.take(nil)
	if p.scores.Version != 1 {
		t.Fatal("waits for ever")
	}
}

func TestPodsOfGroupsAreNotSigned(t *testing.T) {
	p, ctx := testPlugin(somewhere), context.Background()
	one, status := p.SignPod(ctx, testPod("a", "web"))
	other, _ := p.SignPod(ctx, testPod("b", "web"))
	if !status.IsSuccess() || len(one) != 1 || one[0].Key != other[0].Key {
		t.Fatal(one, other, status)
	}
	member := testPod("c", "web")
	member.Labels["scheduling.x-k8s.io/pod-group"] = "ring"
	if _, status := p.SignPod(ctx, member); status.Code() != fwk.Unschedulable {
		t.Fatal(status)
	}
}

func TestOnlyLoopbackIsSpokenTo(t *testing.T) {
	for args, good := range map[string]bool{
		`{"tableFile": "/run/table"}`:                                           true,
		`{"tableFile": "/run/table", "advisor": "http://[::1]:8081"}`:           true,
		`{"tableFile": "/run/table", "advisor": "http://10.0.0.6:8081"}`:        false,
		`{"tableFile": "/run/table", "advisor": "http://localhost:8081"}`:       false,
		`{"tableFile": "/run/table", "advisor": "https://127.0.0.1:8081"}`:      false,
		`{"tableFile": "/run/table", "advisor": "http://127.0.0.1:8081/other"}`: false,
		`{"tableFile": "/run/table", "maxTableAgeSeconds": 0}`:                  false,
		`{"tableFile": "/run/table", "maxTableAge": 60}`:                        false,
		`{"tableFile": "table"}`:                                                false,
		`{}`:                                                                    false,
	} {
		ctx, end := context.WithCancel(context.Background())
		given := &apiruntime.Unknown{Raw: []byte(args), ContentType: apiruntime.ContentTypeJSON}
		if _, err := New(ctx, given, nil); (err == nil) != good {
			t.Errorf("%s: %v", args, err)
		}
		end()
	}
}

// A thousand tables are swapped while pods are scored, reserved and given up: each pod is scored by one table alone.
func TestSwapsUnderFire(t *testing.T) {
	const swaps, nodes, pods = 1000, 50, 4
	file := tableFile{path: filepath.Join(t.TempDir(), "table")}
	p, ctx := testPlugin(somewhere), context.Background()
	infos := nodeInfos(parsed(t, flatTable(1, time.Now(), nodes, 7)).Nodes)
	var wrong, answered atomic.Int64
	var fire sync.WaitGroup
	stop := make(chan struct{})
	for worker := range pods {
		fire.Add(1)
		go func() {
			defer fire.Done()
			pod := testPod(string(rune('a'+worker)), "web")
			for round := 0; ; round++ {
				select {
				case <-stop:
					return
				default:
				}
				if got := score(t, p, pod, infos); got != nil {
					answered.Add(1)
					wrong.Add(notOfOneTable(got))
				}
				node := infos[round%nodes].Node().Name
				p.Reserve(ctx, nil, pod, node)
				if round%3 == 0 {
					p.Unreserve(ctx, nil, pod, node)
				} else {
					p.PostBind(ctx, nil, pod, node)
				}
				p.mu.Lock()
				p.waiting = p.waiting[:0]
				p.mu.Unlock()
			}
		}()
	}
	for swap := range swaps {
		points := byte(7)
		if swap%2 == 1 {
			points = 3
		}
		replaceFile(t, file.path, flatTable(int64(swap), time.Now(), nodes, points))
		found, err := file.newer()
		if err != nil || found == nil {
			t.Fatal(swap, err)
		}
		p.take(found)
		p.hear(replyOf(found), true)
		if p.next != nil {
			t.Fatal("not swapped")
		}
	}
	close(stop)
	fire.Wait()
	t.Logf("%d swaps, %d pods scored on %d nodes each, %d wrong", swaps, answered.Load(), nodes, wrong.Load())
	if wrong.Load() != 0 || answered.Load() < swaps/10 {
		t.Fatal("wrong scores, or too few")
	}
}

// notOfOneTable is 0 for scores of a flat table: all 70 or 30, or one of these and all others ten less.
func notOfOneTable(got []int64) int64 {
	best, count := got[0], 0
	for _, one := range got {
		best = max(best, one)
	}
	for _, one := range got {
		if one == best {
			count++
		} else if one != best-10 {
			return 1
		}
	}
	if (best == 70 || best == 30) && (count == len(got) || count == 1) {
		return 0
	}
	return 1
}
