package golden

import (
	"testing"

	"github.com/influxdata/telegraf"
	_ "github.com/influxdata/telegraf/plugins/inputs/cpu"
	_ "github.com/influxdata/telegraf/plugins/inputs/diskio"
	_ "github.com/influxdata/telegraf/plugins/inputs/mem"
	_ "github.com/influxdata/telegraf/plugins/inputs/net"
)

// The files of HOST_PROC are node_exporter's fixtures.
func TestCohabitGolden(t *testing.T) {
	if err := Records("system", func(telegraf.Input) {}); err != nil {
		t.Fatal(err)
	}
}
