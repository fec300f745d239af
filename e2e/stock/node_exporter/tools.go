//go:build tools

// Package exporter names the exporter that is built.
package exporter

import _ "github.com/prometheus/node_exporter"
