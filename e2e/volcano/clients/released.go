package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	kube "k8s.io/kubernetes/pkg/scheduler"
	kubeconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/extender"
	"volcano.sh/volcano/pkg/scheduler/util"
)

const patience = 10 * time.Second

// advisor stands in for one: it keeps what it was asked and says what it was told to say.
type advisor struct {
	*httptest.Server
	asked []byte
	reply []byte
}

func newAdvisor() *advisor {
	made := &advisor{reply: []byte("null")}
	made.Server = httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, from *http.Request) {
		made.asked, _ = io.ReadAll(from.Body)
		to.Header().Set("Content-Type", "application/json")
		_, _ = to.Write(made.reply)
	}))
	return made
}

// prioritized is what Volcano adds to its own scores: the answer of a session in which the plugin is the only one.
type prioritized func(*api.TaskInfo, []*api.NodeInfo) (map[string]float64, error)

func volcanoAsking(url string) prioritized {
	framework.RegisterPluginBuilder(extender.PluginName, extender.New)
	enabled := true
	plugin := conf.PluginOption{
		Name:             extender.PluginName,
		EnabledNodeOrder: &enabled,
		Arguments: map[string]interface{}{
			extender.ExtenderURLPrefix:      url,
			extender.ExtenderPrioritizeVerb: "prioritize",
			extender.ExtenderHTTPTimeout:    patience.String(),
		},
	}
	nobody, _ := newCache(0)
	session := framework.OpenSession(nobody, []conf.Tier{{Plugins: []conf.PluginOption{plugin}}}, nil)
	return session.BatchNodeOrderFn
}

// newCache is Volcano's cache with nothing behind it; binding a pod to a node is noted.
func newCache(pods int) (*cache.SchedulerCache, *util.FakeBinder) {
	binder := util.NewFakeBinder(pods)
	return newCacheOf(binder), binder
}

// extended is what kube-scheduler makes of an answer.
type extended func(*v1.Pod, []*v1.Node) (*extenderv1.HostPriorityList, error)

func kubeAsking(url string, names bool) (extended, error) {
	client, err := kubeClient(url, names)
	if err != nil {
		return nil, err
	}
	return func(pod *v1.Pod, nodes []*v1.Node) (*extenderv1.HostPriorityList, error) {
		said, _, err := client.Prioritize(pod, kubeNodes(nodes))
		return said, err
	}, nil
}

// passed is what kube-scheduler makes of a filter's answer: the nodes that are left, and why others are not.
type passed struct {
	Nodes        []string          `json:"nodes"`
	Refused      map[string]string `json:"refused"`
	Unresolvable map[string]string `json:"unresolvable"`
}

// kubeFiltering asks about nodes by their names.
func kubeFiltering(url string, names bool) (func([]string) (*passed, error), error) {
	client, err := kubeClient(url, names)
	if err != nil {
		return nil, err
	}
	return func(offered []string) (*passed, error) {
		nodes := make([]*v1.Node, 0, len(offered))
		for _, name := range offered {
			nodes = append(nodes, node(name))
		}
		left, refused, unresolvable, err := client.Filter(pod("web", ""), kubeNodes(nodes))
		if err != nil {
			return nil, err
		}
		said := &passed{make([]string, 0, len(left)), refused, unresolvable}
		for _, one := range left {
			said.Nodes = append(said.Nodes, one.Node().Name)
		}
		return said, nil
	}, nil
}

func kubeClient(url string, names bool) (kubeframework.Extender, error) {
	return kube.NewHTTPExtender(&kubeconfig.Extender{
		URLPrefix:        url,
		FilterVerb:       "filter",
		PrioritizeVerb:   "prioritize",
		Weight:           1,
		NodeCacheCapable: names,
		HTTPTimeout:      metav1.Duration{Duration: patience},
	})
}

func kubeNodes(nodes []*v1.Node) []kubeNode {
	infos := make([]kubeNode, 0, len(nodes))
	for _, node := range nodes {
		info := kubeframework.NewNodeInfo()
		info.SetNode(node)
		infos = append(infos, info)
	}
	return infos
}
