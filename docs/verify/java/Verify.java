// java Verify.java keys.txt headers.txt body.bin
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Verify {
  private static final long AGE_SECONDS = 300;

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static byte[] mac(byte[] key, byte[]... parts) throws GeneralSecurityException {
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(key, "HmacSHA256"));
    for (byte[] part : parts) mac.update(part);
    return mac.doFinal();
  }

  /** Only base64 in its canonical spelling is decoded: any other key is its own UTF-8 bytes. */
  private static byte[] decoded(String key) {
    String text = key.startsWith("whsec_") ? key.substring(6) : "";
    try {
      byte[] bytes = Base64.getDecoder().decode(text);
      return !text.isEmpty() && Base64.getEncoder().encodeToString(bytes).equals(text) ? bytes : utf8(key);
    } catch (IllegalArgumentException notBase64) {
      return utf8(key);
    }
  }

  /** One key, any of the signatures: MessageDigest.isEqual compares in constant time. */
  private static boolean isAny(List<String> given, String right) {
    return given.stream().anyMatch((one) -> MessageDigest.isEqual(utf8(one), utf8(right)));
  }

  /** Throws where something is wrong. Names of headers in lower case; keys are both while the key is rotated. */
  static void verify(List<String> keys, Map<String, String> headers, byte[] body) throws GeneralSecurityException {
    String timestamp = headers.getOrDefault("webhook-timestamp", "");
    byte[] head = utf8(headers.getOrDefault("webhook-id", "") + "." + timestamp + ".");
    List<String> signatures = List.of(headers.getOrDefault("webhook-signature", "").split(" "));
    List<String> hexes = List.of(
        headers.getOrDefault("service-webhook-signature", ""),
        headers.getOrDefault("service-webhook-signature-next", ""));
    boolean isStandard = false;
    boolean isHex = false;
    for (String key : keys) {
      isStandard |= isAny(signatures, "v1," + Base64.getEncoder().encodeToString(mac(decoded(key), head, body)));
      isHex |= isAny(hexes, HexFormat.of().formatHex(mac(utf8(key), body)));
    }
    if (!isStandard) throw new SecurityException("webhook-signature is wrong");
    if (!isHex) throw new SecurityException("Service-Webhook-Signature is wrong");
    if (Math.abs(Instant.now().getEpochSecond() - Long.parseLong(timestamp)) > AGE_SECONDS)
      throw new SecurityException("too old, or a clock is wrong");
  }

  public static void main(String[] args) throws Exception {
    Map<String, String> headers = new HashMap<>();
    for (String line : Files.readAllLines(Path.of(args[1]))) {
      String[] parts = line.split(":", 2);
      if (parts.length == 2) headers.put(parts[0].toLowerCase(Locale.ROOT), parts[1].trim());
    }
    List<String> keys = Files.readAllLines(Path.of(args[0])).stream().filter((line) -> !line.isEmpty()).toList();
    try {
      verify(keys, headers, Files.readAllBytes(Path.of(args[2])));
      System.out.println("verified " + headers.get("webhook-id"));
    } catch (SecurityException error) {
      System.err.println("refused: " + error.getMessage());
      System.exit(1);
    }
  }
}
