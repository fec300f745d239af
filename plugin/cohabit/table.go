package cohabit

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

const (
	magic                       = "cohabit-table-1\n"
	lengthBytes, aligned        = 8, 64
	maxTableBytes, maxPlatforms = 1 << 29, 1 << 15
	highest                     = 10 // points
)

// classes are written as lists of app, best effort and team.
type classes []class

// UnmarshalJSON reads them.
func (c *classes) UnmarshalJSON(text []byte) error {
	var lists [][]json.RawMessage
	if err := json.Unmarshal(text, &lists); err != nil {
		return err
	}
	*c = make(classes, len(lists))
	for i, parts := range lists {
		of := &(*c)[i]
		if len(parts) != 3 {
			return fmt.Errorf("a class has 3 parts, not %d", len(parts))
		}
		if err := errors.Join(json.Unmarshal(parts[0], &of.App), json.Unmarshal(parts[1], &of.BestEffort),
			json.Unmarshal(parts[2], &of.Team)); err != nil {
			return err
		}
	}
	return nil
}

// table is a score table as advisor/scoring/score_table_file.py writes it. Nothing in it changes.
type table struct {
	Version   int64    `json:"version"`
	AsOfUs    int64    `json:"as_of_us"`
	Bundle    string   `json:"bundle"`
	Nodes     []string `json:"nodes"`
	Classes   classes  `json:"classes"`
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
	begin := len(magic) + lengthBytes
	if len(content) < begin || len(content) > maxTableBytes || string(content[:len(magic)]) != magic {
		return nil, errors.New("it does not begin as a table does, or is too long")
	}
	length := binary.LittleEndian.Uint64(content[len(magic):begin])
	if length > uint64(len(content)-begin) {
		return nil, errors.New("it ends within its header")
	}
	end := begin + int(length)
	t := &table{rows: map[string]int{}, classRow: map[class]int{}}
	if err := json.Unmarshal(content[begin:end], t); err != nil {
		return nil, err
	}
	classes, nodes, platforms := len(t.Classes), len(t.Nodes), t.Platforms
	at := (end + aligned - 1) / aligned * aligned
	if platforms < 0 || platforms > maxPlatforms ||
		at+5*classes*nodes+12*classes*platforms+3*nodes != len(content) {
		return nil, errors.New("its length is not that of its arrays")
	}
	rest := content[at:]
	t.cost, rest = floats(rest, classes*nodes)
	t.steps, rest = floats(rest, 3*classes*platforms)
	t.points, t.known = rest[2*nodes:2*nodes+classes*nodes], rest[2*nodes+classes*nodes:]
	t.platform = make([]int16, nodes)
	for row, name := range t.Nodes {
		t.rows[name] = row
		t.platform[row] = int16(binary.LittleEndian.Uint16(rest[2*row:]))
		if int(t.platform[row]) >= platforms {
			return nil, fmt.Errorf("platform %d of %d", t.platform[row], platforms)
		}
	}
	for row, of := range t.Classes {
		t.classRow[of] = row
	}
	for _, points := range t.points {
		if points > highest {
			return nil, fmt.Errorf("%d points, of at most %d", points, highest)
		}
	}
	return t, nil
}

func floats(from []byte, count int) ([]float32, []byte) {
	found := make([]float32, count)
	for i := range found {
		found[i] = math.Float32frombits(binary.LittleEndian.Uint32(from[4*i:]))
	}
	return found, from[4*count:]
}

// rowOf is the row of a pod's class: of its app, else of its team, else of unknown apps; -1 without any.
func (t *table) rowOf(of class) int {
	candidates := []class{{of.App, of.BestEffort, ""}, {"", of.BestEffort, of.Team}, {"", of.BestEffort, ""}}
	if of.App == "" {
		candidates = candidates[1:]
	}
	for _, one := range candidates {
		if row, ok := t.classRow[one]; ok {
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
	if f.seen = now; !now.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxTableBytes+1))
	if err != nil {
		return nil, err
	}
	return parseTable(content)
}
