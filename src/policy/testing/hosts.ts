// Generates hosts and patterns for tests, as people and attackers write them: many spellings of few
// names, so that they often match, and text that is not a host.
import fc from 'fast-check';

const NAMES = `
  example.com a.example.com b.a.example.com notexample.com xample.com com example.co localhost
  example.com.evil.test _dmarc.example.com a-b.example.com bücher.example BÜCHER.example
  xn--bcher-kva.example a.bücher.example ΑΣ.example faß.example kelvin.example \u212aelvin.example
  ex\u00adample.com 例え。example`;

const ADDRESSES = `
  10.0.0.1 127.0.0.1 ::1 2a00::1 2A00:0:0::1 ::ffff:10.0.0.1 2a00::1:2 fe80::1%eth0 ::ffff:0x7f.1
  0x7f.1 0x7f000001 0177.0.0.1 2130706433 127.1 256.0.0.1 10.0.0.01 0.0.1 1.10.0.0.1
  １２７.0.0.1 ①.②.③.④ 127。0。0。1`;

const WRONG = `
  . .. * *. .example.com a..example.com a.*.example.com -a.example.com a-.example.com
  xn--.example.com xn--a.é.example u@example.com a/example.com a%2eexample.com http://example.com
  a=\u0338b.example ${'a'.repeat(64)}.example.com ${'a.'.repeat(130)}example.com`;

const LONGEST = `${'a'.repeat(63)}.example.com ${'a.'.repeat(121)}example.com`;

const oneOf = (words: string) => fc.constantFrom(...words.trim().split(/\s+/));

const upper = (text: string) => fc.constantFrom(text, text, text.toUpperCase());
const bracketed = (text: string) => fc.constantFrom(text, `[${text}]`);
const spelt = fc
  .tuple(
    fc.constantFrom('', '', '', 'a.', 'b.a.', 'not'),
    fc.oneof(oneOf('example.com a.example.com'), oneOf(NAMES)).chain(upper),
    fc.constantFrom('', '', '', '', '.', '..'),
  )
  .map((parts) => parts.join(''));

/** A host as a client or model writes it; often invalid. */
export const someHostText: fc.Arbitrary<string> = fc.oneof(
  { weight: 12, arbitrary: spelt },
  { weight: 3, arbitrary: oneOf(ADDRESSES).chain(bracketed) },
  { weight: 2, arbitrary: oneOf(`${WRONG} ${LONGEST}`) },
  fc.oneof(fc.domain(), fc.ipV4Extended(), fc.ipV6().chain(bracketed), fc.string()),
  fc.constantFrom('', 'a b.example.com', 'a\0.example.com', 'example.com\n', '\texample.com'),
  fc.string({ unit: fc.constantFrom(...'aA0x1.-_:[]%@*éΣ。１\u00ad'), maxLength: 14 }),
);

const stars = fc.constantFrom('', '', '', '*.', '*.', '*.', '*.*.', '*', '*a.');
const below = fc.constantFrom('', '', 'a.', 'b.a.', 'not', '.');
/** The second is often below the first. */
const twoHostTexts = fc.oneof(
  fc.tuple(someHostText, someHostText),
  fc.tuple(someHostText, below).map(([text, more]): [string, string] => [text, more + text]),
);

/** A pattern as people write it, and a host that often matches. */
export const somePatternAndHost: fc.Arbitrary<[pattern: string, host: string]> = fc
  .tuple(stars, twoHostTexts)
  .map(([star, [text, host]]) => [star + text, host]);

export const twoPatterns: fc.Arbitrary<[string, string]> = fc
  .tuple(stars, somePatternAndHost)
  .map(([star, [pattern, host]]) => [pattern, star + host]);

/** A pattern with or without a port, as in a manifest. */
export const someRuleAndHost: fc.Arbitrary<[rule: string, host: string]> = fc
  .tuple(somePatternAndHost, oneOf(': : :443 :80 :5000 :0443 :0 :70000'))
  .map(([[pattern, host], port]) => [port === ':' ? pattern : pattern + port, host]);

export const somePort = fc.constantFrom(443, 443, 443, 80, 5000, 22);
