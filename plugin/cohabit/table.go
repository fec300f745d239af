package cohabit

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

const (
	magic                       = "cohabit-table-1\n"
	begin, aligned              = len(magic) + 8, 64
	maxTableBytes, maxPlatforms = 1 << 29, 1 << 15
	highest                     = 10       // points
	vetoed, costScale           = 1e9, 2.0 // added to costs of nodes without points, so that they come last
)

// listed is a class, written as a list.
type listed class

// UnmarshalJSON reads app, best effort and team.
func (c *listed) UnmarshalJSON(text []byte) error {
	parts := []any{&c.App, &c.BestEffort, &c.Team}
	if err := json.Unmarshal(text, &parts); err != nil || len(parts) == 3 {
		return err
	}
	return errors.New("a class is an app, best effort and a team")
}

// table is a score table as advisor/scoring/score_table_file.py writes it. Nothing in it changes.
type table struct {
	Version   int64    `json:"version"`
	AsOfUs    int64    `json:"as_of_us"`
	Bundle    string   `json:"bundle"`
	Nodes     []string `json:"nodes"`
	Classes   []listed `json:"classes"`
	Platforms int      `json:"platforms"`

	cost     []float32 // (classes, nodes)
	steps    []float32 // (3, classes, platforms)
	platform []int16   // (nodes), negative where not known
	points   []byte    // (classes, nodes)
	known    []byte    // (nodes)
	rows     map[string]int
	classRow map[class]int
}

// parseTable reads a table out of a whole file, or says why it is none.
func parseTable(content []byte) (*table, error) {
	if len(content) < begin || len(content) > maxTableBytes || string(content[:len(magic)]) != magic ||
		binary.LittleEndian.Uint64(content[len(magic):]) > uint64(len(content)-begin) {
		return nil, errors.New("it does not begin as a table does, ends within its header, or is too long")
	}
	end := begin + int(binary.LittleEndian.Uint64(content[len(magic):]))
	t := &table{rows: map[string]int{}, classRow: map[class]int{}}
	if err := json.Unmarshal(content[begin:end], t); err != nil {
		return nil, err
	}
	classes, nodes, platforms := len(t.Classes), len(t.Nodes), t.Platforms
	at := (end + aligned - 1) / aligned * aligned
	if platforms < 0 || platforms > maxPlatforms || at+5*classes*nodes+12*classes*platforms+3*nodes != len(content) {
		return nil, errors.New("its length is not that of its arrays")
	}
	t.cost, t.steps = make([]float32, classes*nodes), make([]float32, 3*classes*platforms)
	t.platform, t.points, t.known = make([]int16, nodes), make([]byte, classes*nodes), make([]byte, nodes)
	for _, into := range []any{t.cost, t.steps, t.platform, t.points, t.known} {
		used, _ := binary.Decode(content[at:], binary.LittleEndian, into) // no more than there is
		at += used
	}
	if slices.ContainsFunc(t.points, func(one byte) bool { return one > highest }) ||
		slices.ContainsFunc(t.platform, func(one int16) bool { return int(one) >= platforms }) {
		return nil, errors.New("points or platforms are out of range")
	}
	for row, name := range t.Nodes {
		t.rows[name] = row
	}
	for row, of := range t.Classes {
		t.classRow[class(of)] = row
	}
	return t, nil
}

// rowOf is the row of a pod's class: of its app, else of its team, else of unknown apps; -1 without any.
func (t *table) rowOf(of class) int {
	for i, one := range []class{{of.App, of.BestEffort, ""}, {"", of.BestEffort, of.Team}, {"", of.BestEffort, ""}} {
		if row, there := t.classRow[one]; there && (i > 0 || of.App != "") {
			return row
		}
	}
	return -1
}

// tableFile is a file that is replaced as a whole now and then. It is read and not mapped: a mapped file that is cut
// short kills the process that reads it.
type tableFile struct {
	path     string
	seen     os.FileInfo
	reported string // the problem that was logged last
}

// newer reads the file if it is another one than last time; nil without an error where it is the same.
func (f *tableFile) newer() (*table, error) {
	now, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if before := f.seen; before != nil && os.SameFile(before, now) && before.Size() == now.Size() &&
		before.ModTime().Equal(now.ModTime()) { // an inode's number is soon taken again
		return nil, nil
	}
	if f.seen = now; !now.Mode().IsRegular() || now.Size() > maxTableBytes {
		return nil, errors.New("it is no regular file, or too long")
	}
	content, err := os.ReadFile(f.path)
	if err != nil {
		return nil, err
	}
	return parseTable(content)
}

// scores are those of a table with the assumed pods that it does not count, as `Replies` of
// advisor/placement/encoded_scores.py has them, to the bit: products are rounded before they are added.
type scores struct {
	*table
	costs   []float64 // (classes, nodes), of nodes without points plus `vetoed`
	points  []byte    // (classes, nodes)
	fixes   []float64 // (nodes) how much more assumed pods add than steps say
	assumed []int     // (classes) assumed pods
}

func newScores(t *table) *scores {
	s := &scores{t, make([]float64, len(t.cost)), slices.Clone(t.points),
		slices.Repeat([]float64{1}, len(t.Nodes)), make([]int, len(t.Classes))}
	for i, cost := range t.cost {
		if s.costs[i] = float64(cost); t.points[i] == 0 {
			s.costs[i] += vetoed
		}
	}
	return s
}

// arrive counts an assumed pod of a row of classes by steps; with sign -1 it takes that back.
func (s *scores) arrive(node string, assumed int, sign float64) {
	at, there := s.rows[node]
	if !there {
		return
	}
	for row := range s.Classes {
		k, step := row*len(s.Nodes)+at, 0.0
		if s.platform[at] >= 0 {
			step = s.step(row, assumed, int(s.platform[at]))
		}
		cost := s.costs[k] + float64(s.fixes[at]*float64(sign*step))
		s.costs[k], s.points[k] = cost, 0
		if cost < vetoed {
			s.points[k] = byte(math.RoundToEven(highest * math.Exp(-math.Max(cost, 0)/costScale)))
		}
	}
}

// step is what an assumed pod of a class adds to the cost of a class on a platform.
func (s *scores) step(row, assumed, platform int) float64 {
	of := func(kind, row int) float64 { return float64(s.steps[(kind*len(s.Classes)+row)*s.Platforms+platform]) }
	if row == assumed {
		return of(2, row)
	}
	return of(0, row) * of(1, assumed)
}

// column is what the advisor says of a node with its assumed pods, for each class of the table.
type column struct {
	Node   string  `json:"node"`
	Points []byte  `json:"points"`
	Cost   []byte  `json:"cost"` // float64, little-endian
	Fix    float64 `json:"fix"`
}

// set takes the advisor's column of a node.
func (s *scores) set(one column) {
	at, there := s.rows[one.Node]
	if there && len(one.Points) == len(s.Classes) && len(one.Cost) == 8*len(s.Classes) {
		s.fixes[at] = one.Fix
		for row, points := range one.Points {
			k := row*len(s.Nodes) + at
			s.points[k] = min(points, highest)
			s.costs[k] = math.Float64frombits(binary.LittleEndian.Uint64(one.Cost[8*row:]))
		}
	}
}

// answer has the points of one pod, 0 to 10, by node.
type answer map[string]int64

// answerFor gives a pod of a class its points of the offered nodes, each offered once. A node that is not known gets
// the lower median of the others. Where pods of the class are assumed, the cheapest of the best nodes is singled out:
// other nodes with as many points lose one, since the scheduler draws among equal totals.
func (s *scores) answerFor(row int, offered []fwk.NodeInfo, alike bool) answer {
	a, unknown, counts := make(answer, len(offered)), []string{}, [highest + 1]int{}
	best, single := -1, ""
	for _, one := range offered {
		name := one.Node().Name
		at, there := s.rows[name]
		if !there || s.known[at] == 0 {
			unknown = append(unknown, name)
			continue
		}
		k := row*len(s.Nodes) + at
		a[name] = int64(s.points[k])
		counts[s.points[k]]++
		if best < 0 || s.points[k] > s.points[best] ||
			s.points[k] == s.points[best] && cmp.Less(s.costs[k], s.costs[best]) {
			best, single = k, name
		}
	}
	median := 0
	for below := counts[0]; 2*below < len(offered)-len(unknown); below += counts[median] {
		median++
	}
	for _, name := range unknown {
		a[name] = int64(median)
	}
	if most := a[single]; alike && most > 1 {
		for name, points := range a {
			if name != single && points == most {
				a[name]--
			}
		}
	}
	return a
}
