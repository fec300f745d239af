package cohabit

import (
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// The rules of ingest/schema/workload_identity.py and of group_of in advisor/api/scheduler/pod_types.py; the vectors in
// testdata hold both sides to the same answers.
var (
	appLabels        = []string{"cohabit.io/app", "app.kubernetes.io/name", "app"}
	teamLabels       = []string{"cohabit.io/team", "team"}
	qosLabels        = []string{"cohabit.io/qos", "koordinator.sh/qosClass"}
	hashLabels       = []string{"pod-template-hash", "rollouts-pod-template-hash"}
	groupLabels      = []string{"scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"}
	groupAnnotations = []string{
		"scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "gang.scheduling.koordinator.sh/name",
	}
	scheduledJob = regexp.MustCompile(`-[0-9]{8,10}$`)
)

const volcano = "batch.volcano.sh/"

// class is what pods have in common that get the same scores: their app and team, and whether they are best effort.
// In a table one of both is empty, or both are: an app that it knows has no team, and most teams are not known.
type class struct {
	App        string `json:"app"`
	BestEffort bool   `json:"best_effort"`
	Team       string `json:"team,omitempty"`
}

// identify says to which app and team a pod belongs.
func identify(pod *v1.Pod) class {
	found := class{App: first(pod.Labels, appLabels), Team: first(pod.Labels, teamLabels)}
	if found.App == "" {
		found.App = workload(pod)
	}
	if found.Team == "" {
		found.Team = pod.Namespace
	}
	qos := strings.ToUpper(first(pod.Labels, qosLabels))
	found.BestEffort = qos == "BE" || qos == "BESTEFFORT"
	return found
}

// workload is the name of the top of a pod's owner chain; a static pod's own name without its node's.
func workload(pod *v1.Pod) string {
	if len(pod.OwnerReferences) == 0 {
		return pod.Name
	}
	owner := pod.OwnerReferences[0]
	for _, one := range pod.OwnerReferences {
		if one.Controller != nil && *one.Controller {
			owner = one
			break
		}
	}
	switch {
	case owner.Kind == "Node":
		return strings.TrimSuffix(pod.Name, "-"+owner.Name)
	case owner.Kind == "Job" && !strings.HasPrefix(owner.APIVersion, volcano):
		return scheduledJob.ReplaceAllString(owner.Name, "")
	case owner.Kind == "ReplicaSet":
		for _, label := range hashLabels {
			if hash := pod.Labels[label]; hash != "" && strings.HasSuffix(owner.Name, "-"+hash) {
				return strings.TrimSuffix(owner.Name, "-"+hash)
			}
		}
	}
	return owner.Name
}

// group is the namespace and name of the group that a pod is scheduled with; empty without one.
func group(pod *v1.Pod) string {
	name := first(pod.Labels, groupLabels)
	if name == "" {
		name = first(pod.Annotations, groupAnnotations)
	}
	if of := pod.Spec.SchedulingGroup; of != nil && of.PodGroupName != nil && *of.PodGroupName != "" {
		name = *of.PodGroupName
	}
	if name == "" {
		return ""
	}
	return pod.Namespace + "/" + name
}

// first is the first of several keys with a value.
func first(of map[string]string, keys []string) string {
	for _, key := range keys {
		if of[key] != "" {
			return of[key]
		}
	}
	return ""
}
