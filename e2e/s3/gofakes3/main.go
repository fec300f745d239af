// gofakes3 serves S3 from memory on a loopback port: `gofakes3 ADDRESS BUCKET LOSES`. It checks no credentials. Every
// so-many-th request is carried out and answered with an error, as an object store may do; with 0 none is.
package main

import (
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	objects := s3mem.New()
	if err := objects.CreateBucket(os.Args[2]); err != nil {
		log.Fatal(err)
	}
	loses, err := strconv.ParseInt(os.Args[3], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(os.Args[1], losing(gofakes3.New(objects).Server(), loses)))
}

func losing(s3 http.Handler, every int64) http.Handler {
	var requests atomic.Int64
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if every == 0 || requests.Add(1)%every != 0 {
			s3.ServeHTTP(answer, request)
			return
		}
		s3.ServeHTTP(httptest.NewRecorder(), request)
		http.Error(answer, "<Error><Code>InternalError</Code></Error>", http.StatusInternalServerError)
	})
}
