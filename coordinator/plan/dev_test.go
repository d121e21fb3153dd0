package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestDev(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("SEEDS"))
	one, _ := strconv.Atoi(os.Getenv("ONE"))
	bad := 0
	for seed := range n {
		if one > 0 && seed != one {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		m, err := play(r.IntN, Decide)
		if err != nil {
			bad++
			if bad < 8 || one > 0 {
				fmt.Println("SEED", seed, len(m.trace), err)
			}
			if one > 0 {
				k := len(m.trace)
				fmt.Println(strings.Join(m.trace[max(0, k-30):], "\n"))
			}
		}
	}
	fmt.Println("bad", bad, "of", n)
}
