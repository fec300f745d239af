package cohabit

import (
	"cmp"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The rules here are those of ingest/schema/workload_identity.py and of group_of in advisor/api/scheduler/pod_types.py;
// the vectors in testdata hold both sides to the same answers.

var scheduledJob = regexp.MustCompile(`-[0-9]{8,10}$`)

// class is what pods have in common that get the same scores: their app and team, and whether they are best effort.
// In a table one of both is empty, or both are: an app that it knows has no team, and most teams are not known.
type class struct {
	App        string `json:"app"`
	BestEffort bool   `json:"best_effort"`
	Team       string `json:"team,omitempty"`
}

// identify says to which app and team a pod belongs.
func identify(pod *v1.Pod) class {
	of := pod.Labels
	qos := strings.ToUpper(cmp.Or(of["cohabit.io/qos"], of["koordinator.sh/qosClass"]))
	return class{
		App:        cmp.Or(of["cohabit.io/app"], of["app.kubernetes.io/name"], of["app"], workload(pod)),
		BestEffort: qos == "BE" || qos == "BESTEFFORT",
		Team:       cmp.Or(of["cohabit.io/team"], of["team"], pod.Namespace),
	}
}

// workload is the name of the top of a pod's owner chain; a static pod's own name without its node's.
func workload(pod *v1.Pod) string {
	if len(pod.OwnerReferences) == 0 {
		return pod.Name
	}
	owner := cmp.Or(metav1.GetControllerOfNoCopy(pod), &pod.OwnerReferences[0])
	switch {
	case owner.Kind == "Node":
		return strings.TrimSuffix(pod.Name, "-"+owner.Name)
	case owner.Kind == "Job" && !strings.HasPrefix(owner.APIVersion, "batch.volcano.sh/"):
		return scheduledJob.ReplaceAllString(owner.Name, "")
	case owner.Kind == "ReplicaSet":
		for _, label := range []string{"pod-template-hash", "rollouts-pod-template-hash"} {
			app, ends := strings.CutSuffix(owner.Name, "-"+pod.Labels[label])
			if ends && pod.Labels[label] != "" {
				return app
			}
		}
	}
	return owner.Name
}

// group is the namespace and name of the group that a pod is scheduled with; empty without one.
func group(pod *v1.Pod) string {
	labels, notes := pod.Labels, pod.Annotations
	name := cmp.Or(labels["scheduling.x-k8s.io/pod-group"], labels["pod-group.scheduling.sigs.k8s.io"],
		notes["scheduling.k8s.io/group-name"], notes["scheduling.volcano.sh/group-name"],
		notes["gang.scheduling.koordinator.sh/name"])
	if of := pod.Spec.SchedulingGroup; of != nil && of.PodGroupName != nil {
		name = cmp.Or(*of.PodGroupName, name)
	}
	if name == "" {
		return ""
	}
	return pod.Namespace + "/" + name
}
