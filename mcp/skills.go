package mcp

import (
	"context"
	"sync/atomic"
)

type skillSet struct{ offered atomic.Bool }

func (k *skillSet) settings() Settings { return Settings{} }

func (s *Server) handleSkills(ctx context.Context, r *Request) (any, *Caching, bool, error) {
	return nil, nil, false, nil
}
