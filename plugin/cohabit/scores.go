package cohabit

import (
	"encoding/binary"
	"math"
)

const (
	vetoed    = 1e9 // added to the cost of nodes without points, so that they come last
	costScale = 2.0
)

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
	s := &scores{t, make([]float64, len(t.cost)), append([]byte(nil), t.points...), make([]float64, len(t.Nodes)),
		make([]int, len(t.Classes))}
	for i, cost := range t.cost {
		if s.costs[i] = float64(cost); t.points[i] == 0 {
			s.costs[i] += vetoed
		}
	}
	for at := range s.fixes {
		s.fixes[at] = 1
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
	if !there || len(one.Points) != len(s.Classes) || len(one.Cost) != 8*len(s.Classes) {
		return
	}
	s.fixes[at] = one.Fix
	for row, points := range one.Points {
		k := row*len(s.Nodes) + at
		s.points[k] = min(points, highest)
		s.costs[k] = math.Float64frombits(binary.LittleEndian.Uint64(one.Cost[8*row:]))
	}
}

// answer has the points of one pod: of the nodes that are known, and of all others.
type answer struct {
	t       *table
	points  []byte
	unknown byte
}

// of gives 0 to 10 points.
func (a *answer) of(node string) int64 {
	if row, ok := a.t.rows[node]; ok && a.t.known[row] != 0 {
		return int64(a.points[row])
	}
	return int64(a.unknown)
}

// answerFor gives a pod of a class its points of the offered nodes, each offered once. A node that is not known gets
// the lower median of the others. Where pods of the class are assumed, the cheapest of the best nodes is singled out:
// other nodes with as many points lose one, since the scheduler draws among equal totals.
func (s *scores) answerFor(row int, offered []string, alike bool) *answer {
	begin, end := row*len(s.Nodes), (row+1)*len(s.Nodes)
	costs := s.costs[begin:end]
	a := &answer{t: s.table, points: append([]byte(nil), s.points[begin:end]...)}
	var counts [highest + 1]int
	known, best := make([]int, 0, len(offered)), -1
	for _, name := range offered {
		at, ok := s.rows[name]
		if !ok || s.known[at] == 0 {
			continue
		}
		known = append(known, at)
		counts[a.points[at]]++
		if best < 0 || a.points[at] > a.points[best] || a.points[at] == a.points[best] &&
			(costs[at] < costs[best] || math.IsNaN(costs[at]) && !math.IsNaN(costs[best])) {
			best = at
		}
	}
	if len(known) == 0 {
		return a
	}
	for below := counts[0]; below <= (len(known)-1)/2; below += counts[a.unknown] {
		a.unknown++
	}
	most := a.points[best]
	if !alike || most <= 1 {
		return a
	}
	for _, at := range known {
		if at != best && a.points[at] == most {
			a.points[at]--
		}
	}
	if a.unknown == most {
		a.unknown--
	}
	return a
}
