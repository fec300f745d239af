//go:build !volcano114

package main

import (
	"k8s.io/client-go/tools/record"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// kubeNode is a node as kube-scheduler's client takes it.
type kubeNode = *kubeframework.NodeInfo

func newCacheOf(binder *util.FakeBinder) *cache.SchedulerCache {
	return cache.NewCustomMockSchedulerCache(
		"volcano", binder, util.NewFakeEvictor(0), &util.FakeStatusUpdater{}, nil, nil, &record.FakeRecorder{})
}
