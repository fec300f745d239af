// Package golden runs inputs of a Telegraf configuration and writes what its output sends, one record a file.
package golden

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/agent"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/outputs"
	_ "github.com/influxdata/telegraf/plugins/serializers/json"
)

// files takes the settings and the serializer of outputs.kafka, which sends what the serializer makes of each metric.
type files struct {
	Brokers    []string `toml:"brokers"`
	Topic      string   `toml:"topic"`
	serializer telegraf.Serializer
}

func (*files) SampleConfig() string                  { return "" }
func (*files) Connect() error                        { return nil }
func (*files) Close() error                          { return nil }
func (*files) Write([]telegraf.Metric) error         { return nil }
func (f *files) SetSerializer(s telegraf.Serializer) { f.serializer = s }

// Records gathers the inputs of COHABIT_CONFIG/name.toml once, into COHABIT_RECORDS/name/.
func Records(name string, prepare func(telegraf.Input)) error {
	text, err := os.ReadFile(filepath.Join(os.Getenv("COHABIT_CONFIG"), name+".toml"))
	if err != nil {
		return err
	}
	to := &files{}
	outputs.Add("kafka", func() telegraf.Output { return to })
	loaded := config.NewConfig()
	if err := loaded.LoadConfigData(text, name+".toml"); err != nil {
		return err
	}
	metrics := make(chan telegraf.Metric, 10000)
	for _, input := range loaded.Inputs {
		prepare(input.Input)
		input.SetDefaultTags(loaded.Tags)
		if err := input.Init(); err != nil {
			return err
		}
		into := agent.NewAccumulator(input, metrics)
		if service, ok := input.Input.(telegraf.ServiceInput); ok {
			if err := service.Start(into); err != nil {
				return err
			}
		}
		if err := input.Gather(into); err != nil {
			return err
		}
	}
	close(metrics)
	return write(name, to.serializer, metrics)
}

func write(name string, by telegraf.Serializer, metrics <-chan telegraf.Metric) error {
	folder := filepath.Join(os.Getenv("COHABIT_RECORDS"), name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	number := 0
	for metric := range metrics {
		record, err := by.Serialize(metric)
		if err != nil {
			return err
		}
		path := filepath.Join(folder, strconv.Itoa(number)+".json")
		if err := os.WriteFile(path, bytes.Clone(record), 0o600); err != nil {
			return err
		}
		number++
	}
	return nil
}
