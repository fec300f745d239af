package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/plugins/extender"
	"volcano.sh/volcano/pkg/scheduler/util"
)

const (
	group = "pods"
	// quiet is how long nothing may be bound before a session counts as done: binding goes on beside it.
	quiet = 2 * time.Second
)

// wanted is a case: Volcano's configuration, nodes, and pods with the app of each.
type wanted struct {
	Configuration string   `json:"configuration"`
	Nodes         []string `json:"nodes"`
	Pods          []struct {
		Name string `json:"name"`
		App  string `json:"app"`
	} `json:"pods"`
}

// placed is what became of it: the node of each pod that got one, what nodes the advisor was offered, and what it said.
type placed struct {
	Bound   map[string]string             `json:"bound"`
	Offered map[string][]string           `json:"offered"`
	Scores  map[string]map[string]float64 `json:"scores"`
}

// allocatePods runs one session of Volcano's scheduler.
func allocatePods(_ []string) error {
	var want wanted
	if err := json.NewDecoder(os.Stdin).Decode(&want); err != nil {
		return err
	}
	options.Default()
	actions, tiers, others, _, err := scheduler.UnmarshalSchedulerConf(want.Configuration)
	if err != nil {
		return err
	}
	recorder := &recorder{http.DefaultTransport, sync.Mutex{}, map[string][]string{}, map[string]map[string]float64{}}
	http.DefaultTransport = recorder // the plugin's client has none of its own
	cluster, binder := newCache(len(want.Pods))
	fill(cluster, want)
	session := framework.OpenSession(cluster, tiers, others)
	stop := make(chan struct{})
	defer close(stop)
	cluster.Run(stop)
	run(session, actions)
	settle(binder, len(want.Pods))
	return json.NewEncoder(os.Stdout).Encode(placed{binder.Binds(), recorder.offered, recorder.scores})
}

func run(session *framework.Session, actions []framework.Action) {
	conf.EnabledActionMap = map[string]bool{}
	for _, action := range actions {
		conf.EnabledActionMap[action.Name()] = true
	}
	for _, action := range actions {
		action.Initialize()
		action.Execute(session)
		action.UnInitialize()
	}
}

// settle waits until every pod is bound, or none has been for a while.
func settle(binder *util.FakeBinder, pods int) {
	for range pods {
		select {
		case <-binder.Channel:
		case <-time.After(quiet):
			return
		}
	}
}

type cluster interface {
	AddOrUpdateNode(*v1.Node) error
	AddPod(interface{})
	AddPodGroupV1beta1(interface{})
	AddQueueV1beta1(interface{})
}

func fill(into cluster, want wanted) {
	for _, name := range want.Nodes {
		if err := into.AddOrUpdateNode(node(name)); err != nil {
			panic(err)
		}
	}
	wants := v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("512Mi")}
	for _, one := range want.Pods {
		labels := map[string]string{"app": one.App}
		into.AddPod(util.BuildPod("default", one.Name, "", v1.PodPending, wants, group, labels, nil))
	}
	into.AddPodGroupV1beta1(util.BuildPodGroup(group, "default", "default", 1, nil, v1beta1.PodGroupInqueue))
	into.AddQueueV1beta1(util.BuildQueue("default", 1, nil))
}

// recorder is the way to the advisor; by task it keeps the nodes that are offered and the scores that come back.
type recorder struct {
	way     http.RoundTripper
	mutex   sync.Mutex
	offered map[string][]string
	scores  map[string]map[string]float64
}

// RoundTrip is one exchange.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	asked, err := request.GetBody()
	if err != nil {
		return nil, err
	}
	reply, err := r.way.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	said, err := io.ReadAll(reply.Body)
	if err != nil {
		return nil, err
	}
	reply.Body = io.NopCloser(bytes.NewReader(said))
	r.keep(asked, said)
	return reply, nil
}

func (r *recorder) keep(asked io.Reader, said []byte) {
	var request struct {
		Task  struct{ Name string }   `json:"task"`
		Nodes []struct{ Name string } `json:"nodes"`
	}
	var response extender.PrioritizeResponse
	if json.NewDecoder(asked).Decode(&request) != nil || json.Unmarshal(said, &response) != nil {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	task := request.Task.Name
	r.scores[task], r.offered[task] = response.NodeScore, nil
	for _, node := range request.Nodes {
		r.offered[task] = append(r.offered[task], node.Name)
	}
}
