package metrics

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koordinator-sh/koordinator/pkg/koordlet/util/system"
)

// koordlet's own collectors show values that koordlet's own functions recorded.
func TestCohabitGolden(t *testing.T) {
	Register(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	defer Register(nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", UID: "0d5a3f6e-1111-2222-3333-444455556666"}}
	container := &corev1.ContainerStatus{ContainerID: "containerd://abc", Name: "web"}
	line := func(avg10 float64) *system.PSILine {
		return &system.PSILine{Avg10: avg10, Avg60: 60, Avg300: 70, Total: 9}
	}
	stats := system.PSIStats{Some: line(12.5), Full: line(2.5), FullSupported: true}
	RecordContainerCPI(container, pod, 3e10, 2e10)
	RecordContainerPSI(container, pod, &system.PSIByResource{CPU: stats, Mem: stats, IO: stats})
	RecordPodPSI(pod, &system.PSIByResource{CPU: stats, Mem: stats, IO: stats})
	RecordNodeUsedCPU(3.25)
	RecordNodeUsedMemory(7e9)
	registry := prometheus.NewRegistry()
	registry.MustRegister(CommonCollectors...)
	registry.MustRegister(CPICollectors...)
	registry.MustRegister(PSICollectors...)
	if err := prometheus.WriteToTextfile(filepath.Join(os.Getenv("COHABIT_RECORDS"), "koordlet.txt"), registry); err != nil {
		t.Fatal(err)
	}
}
