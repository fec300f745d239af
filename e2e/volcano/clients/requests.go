package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

var born = metav1.NewTime(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC))

// offered in this order, which is no order; n-unknown is a node that the advisor has not heard of.
var offered = []string{"n4", "n0", "n-unknown", "n2", "n5", "n1", "n3"}

// writeRequests writes what both clients send.
func writeRequests(words []string) error {
	if len(words) != 1 {
		return errors.New("requests needs a folder")
	}
	requests, err := recordedRequests()
	if err != nil {
		return err
	}
	for name, body := range requests {
		path := filepath.Join(words[0], name+".request.json")
		if err := os.WriteFile(path, body, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func recordedRequests() (map[string][]byte, error) {
	stand := newAdvisor()
	defer stand.Close()
	found := map[string][]byte{}
	if err := recordKube(stand, found); err != nil {
		return nil, err
	}
	stand.reply = []byte(`{"nodeScore":{}}`)
	ask := volcanoAsking(stand.URL)
	bare := &api.TaskInfo{UID: "7", Job: "shop/web-group", Name: "web", Namespace: "shop"}
	cases := map[string]struct {
		task  *api.TaskInfo
		nodes []*api.NodeInfo
	}{
		"released-tasks": {api.NewTaskInfo(pod("web", "")), nodeInfos()},
		"released-bare":  {bare, []*api.NodeInfo{nil, {Name: "n0"}, {}, {Name: "n1"}}},
		"released-empty": {bare, []*api.NodeInfo{}},
		"nothing":        {nil, nil},
	}
	for name, one := range cases {
		if _, err := ask(one.task, one.nodes); err != nil {
			return nil, err
		}
		found["volcano-"+name] = stand.asked
	}
	return found, nil
}

func recordKube(stand *advisor, found map[string][]byte) error {
	for mode, names := range map[string]bool{"names": true, "nodes": false} {
		ask, err := kubeAsking(stand.URL, names)
		if err != nil {
			return err
		}
		stand.reply = []byte("[]")
		if _, err = ask(nil, nil); err != nil {
			return err
		}
		found["prioritize-released-no-"+mode] = stand.asked
	}
	unset, err := json.Marshal(extenderv1.ExtenderArgs{})
	found["prioritize-nothing"] = unset
	return err
}

func pod(app, node string) *v1.Pod {
	controls := true
	wants := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("500m"),
		v1.ResourceMemory: resource.MustParse("512Mi"),
		"nvidia.com/gpu":  resource.MustParse("1"),
	}
	name := app + "-7d4b9c6f58-" + map[bool]string{true: "x2k8q", false: "r4t7w"}[node == ""]
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: app + "-7d4b9c6f58-", Namespace: "shop", UID: types.UID("uid-" + name),
			CreationTimestamp: born,
			Labels:            map[string]string{"app": app, "note": "front & <back>"},
			Annotations:       map[string]string{v1beta1.KubeGroupNameAnnotationKey: app + "-group"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7d4b9c6f58", UID: "9a1b", Controller: &controls},
			},
		},
		Spec: v1.PodSpec{
			NodeName:   node,
			Containers: []v1.Container{{Name: app, Image: app + ":1.4", Resources: v1.ResourceRequirements{Requests: wants}}},
		},
		Status: v1.PodStatus{Phase: map[bool]v1.PodPhase{true: v1.PodPending, false: v1.PodRunning}[node == ""]},
	}
}

func node(name string) *v1.Node {
	has := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("32"),
		v1.ResourceMemory: resource.MustParse("256Gi"),
		v1.ResourcePods:   resource.MustParse("110"),
		"nvidia.com/gpu":  resource.MustParse("8"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), CreationTimestamp: born,
			Labels: map[string]string{v1.LabelHostname: name},
		},
		Status: v1.NodeStatus{
			Capacity: has, Allocatable: has,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

// nodeInfos are nodes as a session has them, two with a task on them.
func nodeInfos() []*api.NodeInfo {
	infos := make([]*api.NodeInfo, 0, len(offered))
	for i, name := range offered {
		if i < 2 {
			infos = append(infos, api.NewNodeInfo(node(name)))
			resident := api.NewTaskInfo(pod([]string{"db", "cache"}[i], name))
			if err := infos[i].AddTask(resident); err != nil {
				panic(err)
			}
			continue
		}
		infos = append(infos, api.NewNodeInfo(node(name)))
	}
	return infos
}
