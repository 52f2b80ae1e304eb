/** Hosts of urls that deliveries may not reach, in every spelling that a parser accepts. */

/** Each resolves to an address that is not public, without a query to a name server. */
export const FORBIDDEN_HOSTS: Readonly<Record<string, readonly string[]>> = {
  'loopback, decimal': ['127.0.0.1', '127.255.255.254', '127.1', '127.0.1', '2130706433', '127.0.0.1.'],
  'loopback, octal and hexadecimal': ['0177.0.0.1', '0177.0.0.01', '017700000001', '00000177.1', '127.000.000.001'],
  'loopback, mixed': ['0x7f.0.0.1', '0x7f000001', '0X7F.1', '0x7f.0.0.0x1', '0177.0x0.1', '127.0x1', '0x7f.1'],
  'loopback, percent-encoded': ['%31%32%37.0.0.1', '127%2e0%2e0%2e1', '%30x7f.1', '%6c%6f%63alhost', 'localhos%74'],
  'loopback, other digits': ['１２７.０.０.１', '①②⑦.⓪.⓪.①', '127。0。0。1', '127．0．0．1', '127｡0｡0｡1', '𝟏𝟐𝟕.𝟎.𝟎.𝟏'],
  'loopback, invisible characters': ['127.0.0.1\u200b', '127.0.0\u00ad.1', 'local\u00adhost', 'local\u2060host'],
  'loopback, by name': [
    'localhost',
    'LOCALHOST',
    'localhost.',
    'LocalHost.',
    'shop.localhost',
    'a.b.LOCALHOST.',
    'ⓛocalhost',
  ],
  'loopback, IPv6': ['[::1]', '[0:0:0:0:0:0:0:1]', '[0000::0001]', '[::0.0.0.1]'],
  'this network': ['0', '0.0.0.0', '0x0', '0x', '00', '0.0', '[::]', '[0::0]', '0.1.2.3'],
  private: [
    '10.0.0.1',
    '10.1',
    '167772161',
    '0xa000001',
    '012.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '3232235777',
  ],
  'carrier-grade NAT': ['100.64.0.1', '100.127.255.255', '1681915905'],
  'link-local': ['169.254.0.1', '[fe80::1]', '[FEBF::1]'],
  'metadata of clouds': [
    ['169.254.169.254', '2852039166', '0xA9FEA9FE', '0251.0376.0251.0376', '169.254.43518', '[::ffff:a9fe:a9fe]'],
    ['168.63.129.16', '2822734096', '100.100.100.200', '1684301000', '[fd00:ec2::254]', '[FD00:0EC2:0:0:0:0:0:254]'],
  ].flat(),
  'documentation and benchmarks': [
    '192.0.2.1',
    '198.51.100.1',
    '203.0.113.1',
    '198.18.0.1',
    '[2001:db8::1]',
    '[3fff::1]',
  ],
  'multicast, reserved, broadcast': [
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '4294967295',
    '0xffffffff',
    '[ff02::1]',
  ],
  'IPv4 in IPv6': [
    ['[::ffff:127.0.0.1]', '[::FFFF:7F00:1]', '[0:0:0:0:0:ffff:10.0.0.1]', '[::ffff:8.8.8.8]', '[::127.0.0.1]'],
    ['[::ffff:0:127.0.0.1]', '[64:ff9b::127.0.0.1]', '[64:ff9b::808:808]', '[64:ff9b:1::a00:1]', '[2002:7f00:1::]'],
    ['[2001:0:5ef5:79fb::1]', '[2600:1::5efe:10.0.0.1]', '[2600:1::200:5efe:a00:1]', '[fe80::5efe:127.0.0.1]'],
  ].flat(),
  'unique local, site-local': ['[fc00::1]', '[fd12:3456::1]', '[fec0::1]'],
};

/** No addresses at all, or ones that only some programs accept: rejected before they are resolved. */
export const UNSOUND_HOSTS: readonly string[] = [
  ['256.0.0.1', '127.0.0.256', '4294967296', '0x100000000', '127.0.0.0.1', '08.0.0.1', '0xg.1'],
  [
    '127.0.0.1%00',
    '127.0.0.1%20',
    'localhost%00.example.com',
    'exa%23mple.com',
    'a%2fb.example.com',
    '127.0.0.1%0d%0a',
  ],
  [
    '[fe80::1%25eth0]',
    '[fe80::1%eth0]',
    '[::1',
    '::1',
    '[127.0.0.1]',
    '[::ffff:127.1]',
    '[::1]x',
    '[1:2:3:4:5:6:7:8:9]',
  ],
  ['user@127.0.0.1', 'example.com@127.0.0.1', 'example.com:80@127.0.0.1', '127.0.0.1\\@example.com', 'example.com#@x'],
  ['127.0.0.1\t', '127.0.0.1\n', 'local\r\nhost', '127.0.0.1 ', ' ', 'example.com:99999', 'example.com:-1'],
].flat();
