// go run verify.go keys.txt headers.txt body.bin
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const ageSeconds = 300

func mac(key, text []byte) []byte {
	hash := hmac.New(sha256.New, key)
	hash.Write(text)
	return hash.Sum(nil)
}

// Only base64 in its canonical spelling is decoded: any other key is its own UTF-8 bytes.
func decoded(key string) []byte {
	text := strings.TrimPrefix(key, "whsec_")
	bytes, err := base64.StdEncoding.DecodeString(text)
	if text == key || text == "" || err != nil || base64.StdEncoding.EncodeToString(bytes) != text {
		return []byte(key)
	}
	return bytes
}

// One key, any of the signatures: hmac.Equal compares in constant time.
func isAny(given []string, right string) bool {
	for _, one := range given {
		if hmac.Equal([]byte(one), []byte(right)) {
			return true
		}
	}
	return false
}

// Answers what is wrong. Names of headers in lower case; keys are both while the key is rotated.
func verify(keys []string, headers map[string]string, body []byte) error {
	timestamp := headers["webhook-timestamp"]
	signed := append([]byte(headers["webhook-id"]+"."+timestamp+"."), body...)
	hexes := []string{headers["service-webhook-signature"], headers["service-webhook-signature-next"]}
	isStandard, isHex := false, false
	for _, key := range keys {
		right := "v1," + base64.StdEncoding.EncodeToString(mac(decoded(key), signed))
		isStandard = isStandard || isAny(strings.Split(headers["webhook-signature"], " "), right)
		isHex = isHex || isAny(hexes, hex.EncodeToString(mac([]byte(key), body)))
	}
	if !isStandard {
		return errors.New("webhook-signature is wrong")
	}
	if !isHex {
		return errors.New("Service-Webhook-Signature is wrong")
	}
	sentAt, err := strconv.ParseInt(timestamp, 10, 64)
	if age := time.Now().Unix() - sentAt; err != nil || age > ageSeconds || age < -ageSeconds {
		return errors.New("too old, or a clock is wrong")
	}
	return nil
}

func read(path string) []byte {
	bytes, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return bytes
}

func linesOf(path string) []string {
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(string(read(path)), "\r", "")), "\n")
}

func main() {
	headers := map[string]string{}
	for _, line := range linesOf(os.Args[2]) {
		name, value, _ := strings.Cut(line, ":")
		headers[strings.ToLower(name)] = strings.TrimSpace(value)
	}
	if err := verify(linesOf(os.Args[1]), headers, read(os.Args[3])); err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		os.Exit(1)
	}
	fmt.Println("verified", headers["webhook-id"])
}
