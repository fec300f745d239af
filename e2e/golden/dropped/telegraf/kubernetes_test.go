package kubernetes

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/golden"
)

// The kubelet answers what it answers in the plugin's own tests.
func TestCohabitGolden(t *testing.T) {
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := responseStatsSummery
		if r.URL.Path == "/pods" {
			answer = responsePods
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer kubelet.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	prepare := func(input telegraf.Input) {
		input.(*Kubernetes).URL, input.(*Kubernetes).BearerToken = kubelet.URL, token
	}
	if err := golden.Records("kubernetes", prepare); err != nil {
		t.Fatal(err)
	}
}
