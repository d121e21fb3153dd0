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

func TestTheGPUOfAMessageIsTheFirstThatItNames(t *testing.T) {
	for message, want := range map[string]string{
		"GPU 1 (GPU-9f1c): needs a reset":                                        "1",
		"GPU 12 (GPU-a): does not answer any more, GPU 0 (GPU-b): XID 79, which": "12",
		"8 GPUs": "", "GPU-a: is not among the GPUs of the node": "", "GPU": "", "GPU 7": "", "": "",
	} {
		t.Run(message, func(t *testing.T) {
			if got := FirstGPU(message); got != want {
				t.Errorf("FirstGPU() = %q, want %q", got, want)
			}
		})
	}
}
