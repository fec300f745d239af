package cohabit

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// vector is a line of testdata/vectors.json.gz, which `python -m tests.plugin.vectors` writes.
type vector struct {
	Pod        v1.Pod   `json:"pod"`
	App        string   `json:"app"`
	Team       string   `json:"team"`
	BestEffort bool     `json:"best_effort"`
	Group      string   `json:"group"`
	Class      listed   `json:"class"`
	News       []news   `json:"news"`
	Nodes      []string `json:"nodes"`
	Alike      bool     `json:"alike"`
	Points     []int64  `json:"points"`
	Cost       string   `json:"cost"`
}

// news is what happens before a vector: a new table, a column of the advisor, or a pod that comes or goes.
type news struct {
	Table  bool `json:"table"`
	Column *struct {
		Node   string  `json:"node"`
		Points []int   `json:"points"`
		Cost   string  `json:"cost"`
		Fix    float64 `json:"fix"`
	} `json:"column"`
	Node  string  `json:"node"`
	Class listed  `json:"class"`
	Sign  float64 `json:"sign"`
}

func testTable(t testing.TB) *table {
	t.Helper()
	content, err := os.ReadFile("testdata/table")
	if err != nil {
		t.Fatal(err)
	}
	found, err := parseTable(content)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (n *news) happenTo(t *testing.T, s *scores) *scores {
	switch {
	case n.Table:
		return newScores(s.table)
	case n.Column != nil:
		cost, err := hex.DecodeString(n.Column.Cost)
		if err != nil {
			t.Fatal(err)
		}
		one := column{Node: n.Column.Node, Cost: cost, Fix: n.Column.Fix}
		for _, points := range n.Column.Points {
			one.Points = append(one.Points, byte(points))
		}
		s.set(one)
	default:
		if row, ok := s.classRow[class(n.Class)]; ok {
			s.arrive(n.Node, row, n.Sign)
		}
	}
	return s
}

func TestPythonAndGoSayTheSame(t *testing.T) {
	file, err := os.Open("testdata/vectors.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	scores, lines := newScores(testTable(t)), bufio.NewScanner(unpacked)
	lines.Buffer(nil, 1<<20)
	count, nodes := 0, 0
	for ; lines.Scan(); count++ {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		for i := range v.News {
			scores = v.News[i].happenTo(t, scores)
		}
		who := identify(&v.Pod)
		if who != (class{v.App, v.BestEffort, v.Team}) || group(&v.Pod) != v.Group {
			t.Fatalf("pod %d is %+v of group %q: %s", count, who, group(&v.Pod), lines.Text())
		}
		row := scores.rowOf(who)
		if row < 0 || scores.Classes[row] != v.Class {
			t.Fatalf("pod %d has class %d: %s", count, row, lines.Text())
		}
		said, got := scores.answerFor(row, nodeInfos(v.Nodes), v.Alike), []int64{}
		for _, node := range v.Nodes {
			got = append(got, said[node])
		}
		nodes += len(got)
		if !slices.Equal(got, v.Points) {
			t.Fatalf("pod %d has points %v: %s", count, got, lines.Text())
		}
		if cost := firstKnownCost(scores, row, v.Nodes); math.Float64bits(cost) != math.Float64bits(number(t, v.Cost)) {
			t.Fatalf("pod %d has cost %x: %s", count, cost, lines.Text())
		}
	}
	if err := lines.Err(); err != nil || count < 10_000 {
		t.Fatalf("%d pods: %v", count, err)
	}
	t.Logf("%d of %d pods and %d scores equal", count, count, nodes)
}

func firstKnownCost(s *scores, row int, names []string) float64 {
	for _, name := range names {
		if at, ok := s.rows[name]; ok && s.known[at] != 0 {
			return s.costs[row*len(s.Nodes)+at]
		}
	}
	return 0
}

func number(t *testing.T, text string) float64 {
	found, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
