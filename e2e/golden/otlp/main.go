// otlp writes golden metrics of the OpenTelemetry Collector's receivers as its kafka exporter sends them.
//
// It reads golden files by the Collector's own reader, passes them through the Collector's own `resource` processor, and
// marshals them by the Collector's own marshalers. Times of golden files are milliseconds after 1970, which no clock
// shows; they become the time that is given.
//
//	otlp MILLISECONDS 'ATTRIBUTES of the processor, JSON' FOLDER < list of golden files, one a line
//
// FOLDER gets NUMBER.pb and NUMBER.json for each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/resourceprocessor"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(milliseconds, attributes, folder string) error {
	at, err := strconv.ParseInt(milliseconds, 10, 64)
	if err != nil {
		return err
	}
	var processed pmetric.Metrics
	through, err := resource(attributes, &processed)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for number := 0; lines.Scan(); number++ {
		read, err := golden.ReadMetrics(lines.Text())
		if err != nil {
			return err
		}
		setTimes(read, time.UnixMilli(at))
		if err := through.ConsumeMetrics(context.Background(), read); err != nil {
			return err
		}
		if err := write(processed, filepath.Join(folder, strconv.Itoa(number))); err != nil {
			return err
		}
	}
	return lines.Err()
}

// resource is the processor, which leaves its outcome in `into`.
func resource(attributes string, into *pmetric.Metrics) (processor.Metrics, error) {
	var list []any
	if err := json.Unmarshal([]byte(attributes), &list); err != nil {
		return nil, err
	}
	factory := resourceprocessor.NewFactory()
	config := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(map[string]any{"attributes": list}).Unmarshal(config); err != nil {
		return nil, err
	}
	next, err := consumer.NewMetrics(func(_ context.Context, metrics pmetric.Metrics) error {
		*into = metrics
		return nil
	})
	if err != nil {
		return nil, err
	}
	settings := processor.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	return factory.CreateMetrics(context.Background(), settings, config, next)
}

// setTimes gives every point the time that is now, and a start an hour before.
func setTimes(metrics pmetric.Metrics, now time.Time) {
	for _, resource := range metrics.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				for _, point := range points(metric).All() {
					point.SetTimestamp(pcommon.NewTimestampFromTime(now))
					point.SetStartTimestamp(pcommon.NewTimestampFromTime(now.Add(-time.Hour)))
				}
			}
		}
	}
}

func points(metric pmetric.Metric) pmetric.NumberDataPointSlice {
	switch metric.Type() {
	case pmetric.MetricTypeGauge:
		return metric.Gauge().DataPoints()
	case pmetric.MetricTypeSum:
		return metric.Sum().DataPoints()
	default:
		return pmetric.NewNumberDataPointSlice()
	}
}

func write(metrics pmetric.Metrics, path string) error {
	binary, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(metrics)
	if err != nil {
		return err
	}
	text, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(metrics)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".pb", binary, 0o600); err != nil {
		return err
	}
	return os.WriteFile(path+".json", text, 0o600)
}
