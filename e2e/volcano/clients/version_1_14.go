//go:build volcano114

package main

import (
	"k8s.io/client-go/tools/record"
	fwk "k8s.io/kube-scheduler/framework"

	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/metrics"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// kubeNode is a node as kube-scheduler's client takes it.
type kubeNode = fwk.NodeInfo

func newCacheOf(binder *util.FakeBinder) *cache.SchedulerCache {
	metrics.InitKubeSchedulerRelatedMetrics() // as the scheduler's own command does: filters count in them
	return cache.NewCustomMockSchedulerCache(
		"volcano", binder, util.NewFakeEvictor(0), &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})
}
