package playground

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
)

//go:embed all:web/dist
var dist embed.FS

// mediaTypes of the page's files. The system's table is not used, because it varies.
var mediaTypes = map[string]string{
	".html":  "text/html; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".css":   "text/css; charset=utf-8",
	".svg":   "image/svg+xml",
	".png":   "image/png",
	".ico":   "image/x-icon",
	".woff2": "font/woff2",
	".json":  "application/json",
	".txt":   "text/plain; charset=utf-8",
}

// A file is one file of the page with its response headers.
type file struct {
	media        string
	tag          string
	plain        []byte
	zipped       func() []byte // compressed on first use; nil if compression saves nothing
	neverChanges bool          // its name contains a digest
}

// files returns the files of the page by path, without the leading slash.
var files = sync.OnceValue(func() map[string]*file {
	all := make(map[string]*file)
	_ = fs.WalkDir(dist, "web/dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		media, known := mediaTypes[path.Ext(name)]
		if !known {
			return nil
		}
		sum := sha256.Sum256(content)
		f := &file{media: media, plain: content, tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		name = strings.TrimPrefix(name, "web/dist/")
		f.neverChanges = strings.HasPrefix(name, "assets/")
		f.zipped = sync.OnceValue(func() []byte { return zip(media, content) })
		all[name] = f
		return nil
	}) // embedded files can be read
	return all
})

// zip compresses compressible content at a fast level, because a client is waiting.
func zip(media string, content []byte) []byte {
	if media == mediaTypes[".woff2"] || media == mediaTypes[".png"] {
		return nil
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(content) // writes to memory
	if w.Close() != nil || z.Len() > len(content)*9/10 {
		return nil
	}
	return z.Bytes()
}

// servePage serves a file of the page. It is the same for everyone and contains no secret.
func servePage(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	f := files()[name]
	if f == nil {
		http.Error(w, "page not found", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.media)
	h.Set("Etag", f.tag)
	h.Set("Cache-Control", "no-cache")
	if f.neverChanges {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	content := f.plain
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && r.Header.Get("Range") == "" {
		if zipped := f.zipped(); zipped != nil {
			content = zipped
			h.Set("Content-Encoding", "gzip")
		}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
