// The kept rule set: patterns of the keys and tokens of some two hundred vendors, with the words of
// which such a text contains one, and the exceptions that look like a secret and are none.
import kept from './gitleaks.json' with { type: 'json' };
import { convertRe2 } from './re2-pattern.ts';
import { measureEntropy } from './shapes.ts';

type Allowlist = {
  regexTarget?: string;
  regexes?: readonly string[];
  stopwords?: readonly string[];
};
type KeptRule = {
  id: string;
  keywords: readonly string[];
  regex: string;
  entropy?: number;
  secretGroup?: number;
  allowlists?: readonly Allowlist[];
};
type Candidate = { secret: string; match: string; line: string };
type CompiledRule = { id: string; pattern: RegExp; isSecret(candidate: Candidate): boolean };

const RULES: readonly KeptRule[] = kept.rules;
/** A pattern sees this much of the text around its word. Patterns that run over a whole long text
 * would be slow on a text that was made to be slow. */
const BEFORE = 128;
const AFTER = 640;
/** A text that takes longer was made to be slow: ordinary ones take 15 ms per megabyte. */
const CHECK_TIMEOUT_MS = 1_000;
/** Most patterns begin with a name around their word. It only matters for exceptions, and trying
 * every place where it could begin makes a pattern fifty times slower. */
const NAME_BEFORE = '[\\w.-]{0,50}?';
const NAME_LENGTH_MAX = 50;

const escapeText = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

const rulesByKeyword = new Map<string, KeptRule[]>();
for (const rule of RULES)
  for (const word of rule.keywords)
    rulesByKeyword.set(word, [...(rulesByKeyword.get(word) ?? []), rule]);
const KEYWORDS = new RegExp(
  // The longest first, as the words inside it are looked for anyway.
  [...rulesByKeyword.keys()]
    .toSorted((a, b) => b.length - a.length)
    .map(escapeText)
    .join('|'),
  'gi',
);

const compiled = new Map<string, CompiledRule>();
const compileAll = (regexes: readonly string[] = []): RegExp[] =>
  regexes.map((regex) => new RegExp(convertRe2(regex)));

function compileAllowlist({ regexTarget, regexes, stopwords = [] }: Allowlist) {
  const patterns = compileAll(regexes);
  const target = regexTarget === 'match' || regexTarget === 'line' ? regexTarget : 'secret';
  return (candidate: Candidate): boolean =>
    patterns.some((pattern) => pattern.test(candidate[target])) ||
    stopwords.some((word) => candidate.secret.toLowerCase().includes(word));
}

function compileRule(rule: KeptRule): CompiledRule {
  const known = compiled.get(rule.id);
  if (known !== undefined) return known;
  const allowed = [kept.allowlist, ...(rule.allowlists ?? [])].map(compileAllowlist);
  const made = {
    id: rule.id,
    pattern: new RegExp(convertRe2(rule.regex.replace(NAME_BEFORE, '')), 'g'),
    isSecret: (candidate: Candidate) =>
      (rule.entropy === undefined || measureEntropy(candidate.secret) > rule.entropy) &&
      !allowed.some((isAllowed) => isAllowed(candidate)),
  };
  compiled.set(rule.id, made);
  return made;
}

type Span = { start: number; end: number };

/** The parts of the text that each rule must look at; those that overlap become one. */
function findSpans(text: string): Map<KeptRule, Span[]> {
  const spans = new Map<KeptRule, Span[]>();
  KEYWORDS.lastIndex = 0;
  for (let found = KEYWORDS.exec(text); found !== null; found = KEYWORDS.exec(text)) {
    const [start, end] = [Math.max(0, found.index - BEFORE), found.index + AFTER];
    for (const rule of rulesByKeyword.get(found[0].toLowerCase()) ?? []) {
      const own = spans.get(rule) ?? [];
      const last = own.at(-1);
      if (last !== undefined && start <= last.end) last.end = end;
      else own.push({ start, end });
      spans.set(rule, own);
    }
    // Words may begin inside each other.
    KEYWORDS.lastIndex = found.index + 1;
  }
  return spans;
}

function lineAround(text: string, at: number): string {
  const end = text.indexOf('\n', at);
  return text.slice(text.lastIndexOf('\n', at) + 1, end === -1 ? undefined : end);
}

const nameBefore = (text: string, at: number): string =>
  /[\w.-]*$/.exec(text.slice(Math.max(0, at - NAME_LENGTH_MAX), at))?.[0] ?? '';

function hasSecret(text: string, { pattern, isSecret }: CompiledRule, group?: number): boolean {
  for (const found of text.matchAll(pattern)) {
    const secret = (group === undefined ? found.slice(1).find(Boolean) : found[group]) ?? found[0];
    const match = nameBefore(text, found.index) + found[0];
    if (isSecret({ secret, match, line: lineAround(text, found.index) })) return true;
  }
  return false;
}

/** Long spans in parts that overlap, so that the time can be looked at between them. */
function* splitSpans(spans: readonly Span[]): Generator<Span> {
  const length = 8 * AFTER;
  for (const { start, end } of spans)
    for (let at = start; at < end; at += length - AFTER)
      yield { start: at, end: Math.min(end, at + length) };
}

/** The kinds of secrets in a text, as the rule set names them; undefined if it takes too long. */
export function findKeptSecrets(text: string): string[] | undefined {
  const deadline = performance.now() + CHECK_TIMEOUT_MS;
  const kinds: string[] = [];
  for (const [rule, spans] of findSpans(text)) {
    const ready = compileRule(rule);
    for (const { start, end } of splitSpans(spans)) {
      if (performance.now() > deadline) return undefined;
      if (!hasSecret(text.slice(start, end), ready, rule.secretGroup)) continue;
      kinds.push(rule.id.replaceAll('-', ' '));
      break;
    }
  }
  return kinds;
}
