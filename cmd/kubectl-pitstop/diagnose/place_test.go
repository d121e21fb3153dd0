package diagnose

import "testing"

func TestCommandsNameTheirPlace(t *testing.T) {
	const text = "`kubectl pitstop gpu release NODE --for 10m`, `nvidia-smi --gpu-reset -i INDEX`"
	for name, c := range map[string]struct {
		place Place
		want  string
	}{
		"node and GPU are known": {Place{"gpu-0", "3"}, "`kubectl pitstop gpu release gpu-0 --for 10m`, `nvidia-smi --gpu-reset -i 3`"},
		"only the node is":       {Place{Node: "gpu-0"}, "`kubectl pitstop gpu release gpu-0 --for 10m`, `nvidia-smi --gpu-reset -i INDEX`"},
		"nothing is":             {Place{}, text},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.place.In(text); got != c.want {
				t.Errorf("In() = %q", got)
			}
		})
	}
}

func TestTheGPUsOfAMessageAreThoseThatItNamesFirst(t *testing.T) {
	for message, want := range map[string]string{
		"GPU 1 (GPU-9f1c): needs a reset":                                        "1",
		"GPU 12 (GPU-a): does not answer any more, GPU 0 (GPU-b): XID 79, which": "12",
		"GPUs 3 (GPU-d), 5 (GPU-f): needs a reset, GPU 0 (GPU-a): hot":           "3,5",
		"GPU 0: XID 79": "0",
		"8 GPUs":        "", "GPU-a: is not among the GPUs of the node": "", "GPU": "", "GPU 7": "", "GPU x (GPU-a): hot": "", "": "",
	} {
		t.Run(message, func(t *testing.T) {
			if got := FirstGPUs(message); got != want {
				t.Errorf("FirstGPUs() = %q, want %q", got, want)
			}
		})
	}
}
