package cohabit

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// flatTable has the same cost and points on all nodes, and assumed pods that add nothing.
func flatTable(version int64, asOf time.Time, nodes int, points byte) []byte {
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	classes := [][]any{{"", false, ""}, {"", true, ""}, {"web", false, ""}}
	header, _ := json.Marshal(map[string]any{"version": version, "as_of_us": asOf.UnixMicro(), "bundle": "b",
		"nodes": names, "classes": classes, "platforms": 1})
	made := append([]byte(magic), binary.LittleEndian.AppendUint64(nil, uint64(len(header)))...)
	made = append(made, header...)
	made = append(made, make([]byte, (aligned-len(made)%aligned)%aligned)...)
	cost := float32(-costScale * math.Log(float64(points)/highest))
	for range len(classes) * nodes {
		made = binary.LittleEndian.AppendUint32(made, math.Float32bits(cost))
	}
	made = append(made, make([]byte, 4*3*len(classes)+2*nodes)...)
	for range len(classes) * nodes {
		made = append(made, points)
	}
	for range nodes {
		made = append(made, 1)
	}
	return made
}

func replaceFile(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func use(found *table) {
	s := newScores(found)
	for row := range found.Classes {
		for _, name := range found.Nodes {
			s.arrive(name, row, 1)
		}
		s.answerFor(row, nodeInfos(append([]string{"elsewhere"}, found.Nodes...)), true)
	}
}

func TestATableThatIsCutShortIsRefused(t *testing.T) {
	content, err := os.ReadFile("testdata/table")
	if err != nil {
		t.Fatal(err)
	}
	for end := range content {
		if _, err := parseTable(content[:end]); err == nil {
			t.Fatalf("%d of %d bytes were taken", end, len(content))
		}
	}
	if _, err := parseTable(append(content, 0)); err == nil {
		t.Fatal("a byte too many was taken")
	}
}

func TestABrokenTableIsRefusedOrHarmless(t *testing.T) {
	content, err := os.ReadFile("testdata/table")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range content {
		for bit := range 8 {
			content[i] ^= 1 << bit
			if found, err := parseTable(content); err != nil {
				refused++
			} else if i%7 == 0 {
				use(found)
			}
			content[i] ^= 1 << bit
		}
	}
	t.Logf("%d of %d tables with one bit flipped were refused", refused, 8*len(content))
}

func FuzzTable(f *testing.F) {
	content, _ := os.ReadFile("testdata/table")
	f.Add(content)
	f.Add(flatTable(1, time.Unix(0, 0), 3, 7))
	f.Fuzz(func(t *testing.T, content []byte) {
		if found, err := parseTable(content); err == nil {
			use(found)
		}
	})
}

func TestAnUnchangedFileIsNotReadAgain(t *testing.T) {
	file := tableFile{path: filepath.Join(t.TempDir(), "table")}
	if _, err := file.newer(); err == nil {
		t.Fatal("no file was read")
	}
	replaceFile(t, file.path, flatTable(1, time.Now(), 2, 7))
	if found, err := file.newer(); err != nil || found == nil || found.Version != 1 {
		t.Fatal(found, err)
	}
	if found, err := file.newer(); err != nil || found != nil {
		t.Fatal("the same file was read again", err)
	}
	replaceFile(t, file.path, flatTable(2, time.Now(), 2, 7))
	if found, err := file.newer(); err != nil || found == nil || found.Version != 2 {
		t.Fatal(found, err)
	}
	replaceFile(t, file.path, []byte(magic))
	if found, err := file.newer(); err == nil || found != nil {
		t.Fatal("half a file was taken")
	}
	file.path = t.TempDir()
	if _, err := file.newer(); err == nil {
		t.Fatal("a folder was taken")
	}
}
