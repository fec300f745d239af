// Command kube-scheduler is the scheduler of Kubernetes with the plugin Cohabit, see docs/scheduler-plugin.md.
package main

import (
	"os"

	"cohabit/plugin/cohabit"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(cohabit.Name, cohabit.New))))
}
