package metrics

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/google/cadvisor/lib/container"
	info "github.com/google/cadvisor/lib/model"
)

// ofPod is the container of cAdvisor's own tests as a kubelet's: in the cgroup of a pod, with the labels of its runtime.
type ofPod struct{ testSubcontainersInfoProvider }

func (p ofPod) GetRequestedContainersInfo(name string, options info.RequestOptions) (map[string]*info.ContainerInfo, error) {
	found, err := p.testSubcontainersInfoProvider.GetRequestedContainersInfo(name, options)
	if err != nil {
		return nil, err
	}
	at := os.Getenv("COHABIT_CGROUP")
	for _, one := range found {
		one.Name, one.Id = at, filepath.Base(at)
		one.Spec.Labels["io.kubernetes.pod.name"] = "web-0"
		one.Spec.Labels["io.kubernetes.pod.namespace"] = "shop"
		one.Spec.Labels["io.kubernetes.pod.uid"] = os.Getenv("COHABIT_POD_UID")
		one.Spec.Labels["io.kubernetes.container.name"] = "web"
	}
	return found, nil
}

// kubelet's labels: kubernetes pkg/kubelet/server/server.go, containerPrometheusLabelsFunc.
func kubelet(one *info.ContainerInfo) map[string]string {
	return map[string]string{
		LabelID: one.Name, LabelName: one.Aliases[0], LabelImage: one.Spec.Image,
		"pod":       one.Spec.Labels["io.kubernetes.pod.name"],
		"namespace": one.Spec.Labels["io.kubernetes.pod.namespace"],
		"container": one.Spec.Labels["io.kubernetes.container.name"],
	}
}

// A record of the kafka storage driver: cadvisor cmd/internal/storage/kafka/kafka.go, detailSpec. Its module has no
// version that the module proxy keeps; the statistics in it are the released module's.
type record struct {
	Timestamp time.Time            `json:"timestamp"`
	Machine   string               `json:"machine_name,omitempty"`
	Name      string               `json:"container_Name,omitempty"`
	ID        string               `json:"container_Id,omitempty"`
	Labels    map[string]string    `json:"container_labels,omitempty"`
	Envs      map[string]string    `json:"container_envs,omitempty"`
	Stats     *info.ContainerStats `json:"container_stats,omitempty"`
}

func TestCohabitGolden(t *testing.T) {
	folder := os.Getenv("COHABIT_RECORDS")
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewPrometheusCollector(ofPod{}, kubelet, container.AllMetrics, now, info.RequestOptions{}))
	if err := prometheus.WriteToTextfile(filepath.Join(folder, "kubelet.txt"), registry); err != nil {
		t.Fatal(err)
	}
	found, err := ofPod{}.GetRequestedContainersInfo("/", info.RequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range found {
		for _, stats := range one.Stats {
			text, err := json.Marshal(record{stats.Timestamp, "n1", one.Aliases[0], one.Id, one.Spec.Labels, one.Spec.Envs, stats})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "stats.json"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
