//go:build tools

// Package load names the load generator that is built.
package load

import _ "github.com/tsenart/vegeta/v12"
