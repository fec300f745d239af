package docker

import (
	"crypto/tls"
	"testing"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/golden"
)

// The daemon is the client of the plugin's own tests.
func TestCohabitGolden(t *testing.T) {
	client := func(string, *tls.Config) (dockerClient, error) { return &baseClient, nil }
	prepare := func(input telegraf.Input) {
		input.(*Docker).newClient = client
		input.(*Docker).newEnvClient = func() (dockerClient, error) { return client("", nil) }
	}
	if err := golden.Records("docker", prepare); err != nil {
		t.Fatal(err)
	}
}
