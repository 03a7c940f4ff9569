"""The paper's table and figures, run here: `make paper` writes docs/paper.md."""
