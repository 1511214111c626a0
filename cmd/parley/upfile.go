package main

import (
	"context"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/playground"
)

// judges are the rules of every protocol.
func judges() []capture.Judge { return nil }

// An upFile is the configuration that parley up was started with, and the way to others.
type upFile struct{ path string }

func (a *app) upFile(path string) (*upFile, error) { return &upFile{path}, nil }

func (f *upFile) targets() []playground.Target              { return nil }
func (f *upFile) secrets() []string                         { return nil }
func (f *upFile) config() *playground.Config                { return nil }
func (f *upFile) Found() []playground.Config                { return nil }
func (f *upFile) Read(name, text string) playground.Config  { return playground.Config{} }
func (f *upFile) watch(ctx context.Context, changed func()) { <-ctx.Done() }
