# ruby verify.rb keys.txt headers.txt body.bin
require "openssl"

AGE_SECONDS = 300

def mac(key, text)
  OpenSSL::HMAC.digest("SHA256", key, text)
end

# Only base64 in its canonical spelling is decoded: any other key is its own UTF-8 bytes.
def decoded(key)
  text = key.start_with?("whsec_") ? key.delete_prefix("whsec_") : ""
  bytes = text.unpack1("m")
  !text.empty? && [bytes].pack("m0") == text ? bytes : key
end

def any?(given, right)
  given.product(right).any? { |one, other| OpenSSL.secure_compare(one, other) }
end

# Raises where something is wrong. Names of headers in lower case; keys are both while the key is rotated.
def verify(keys, headers, body)
  timestamp = headers.fetch("webhook-timestamp", "")
  signed = "#{headers["webhook-id"]}.#{timestamp}.".b + body
  right = keys.map { |key| "v1,#{[mac(decoded(key), signed)].pack("m0")}" }
  raise "webhook-signature is wrong" unless any?(headers.fetch("webhook-signature", "").split, right)

  hexes = ["", "-next"].map { |suffix| headers.fetch("service-webhook-signature#{suffix}", "") }
  right = keys.map { |key| mac(key, body).unpack1("H*") }
  raise "Service-Webhook-Signature is wrong" unless any?(hexes, right)

  raise "too old, or a clock is wrong" if (Time.now.to_i - Integer(timestamp, 10)).abs > AGE_SECONDS
end

keys_file, headers_file, body_file = ARGV
pairs = File.readlines(headers_file, chomp: true).reject(&:empty?).map { |line| line.split(/: */, 2) }
headers = pairs.to_h { |name, value| [name.downcase, value] }
begin
  verify(File.readlines(keys_file, chomp: true).reject(&:empty?), headers, File.binread(body_file))
  puts "verified #{headers["webhook-id"]}"
rescue StandardError => error
  abort "refused: #{error.message}"
end
