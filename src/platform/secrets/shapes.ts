// Finds secrets by their shape and removes them from a text before a model sees it. A row of the
// table is a name, a pattern, and the words of which such a text always contains one. Pure.

type Shape = {
  name: string;
  /** The group `secret`, or the whole match, is replaced. */
  pattern: RegExp;
  /** In lower case. A text with none of these words is skipped. */
  hints: readonly string[];
  /** For shapes that harmless text can have too. */
  isSecret?: (value: string) => boolean;
};

/** Shannon entropy in bits per character. */
export function measureEntropy(text: string): number {
  const counts = new Map<string, number>();
  for (const c of text) counts.set(c, (counts.get(c) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values())
    bits -= (count / text.length) * Math.log2(count / text.length);
  return bits;
}

const RANDOM_BITS_MIN = 3.3;

function looksRandom(value: string): boolean {
  return /\d/.test(value) && /[A-Za-z]/.test(value) && measureEntropy(value) >= RANDOM_BITS_MIN;
}

function isJwt(value: string): boolean {
  try {
    const head: unknown = JSON.parse(Buffer.from(value.split('.')[0]!, 'base64url').toString());
    return typeof head === 'object' && head !== null && 'alg' in head;
  } catch {
    return false;
  }
}

const KEY_NAME = '[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?';
const SECRET_WORDS = [
  'password',
  'passwd',
  'secret',
  'api[_-]?key',
  'access[_-]?key',
  'auth[_-]?token',
  'access[_-]?token',
  'private[_-]?token',
];

export const SHAPES: readonly Shape[] = [
  {
    name: 'private key',
    pattern: new RegExp(
      `-----BEGIN ${KEY_NAME}-----[\\s\\S]{0,16384}?(?:-----END ${KEY_NAME}-----|$)`,
      'g',
    ),
    hints: ['private key'],
  },
  {
    name: 'AWS access key',
    pattern: /\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b/g,
    hints: ['akia', 'asia', 'abia', 'acca'],
  },
  {
    name: 'AWS secret key',
    pattern: /aws.{0,20}?(?:secret|key).{0,20}?(?<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])/gi,
    hints: ['aws'],
    isSecret: looksRandom,
  },
  {
    name: 'GitHub token',
    pattern: /\bgh[pousr]_[A-Za-z0-9]{36,255}\b|\bgithub_pat_\w{22,255}\b/g,
    hints: ['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_', 'github_pat_'],
  },
  {
    name: 'GitLab token',
    pattern: /\bgl(?:pat|dt|rt|cbt|ptt)-[\w-]{20,}/g,
    hints: ['glpat-', 'gldt-', 'glrt-', 'glcbt-', 'glptt-'],
  },
  {
    name: 'Slack token',
    pattern: /\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{10,}/g,
    hints: ['xox', 'xapp-'],
  },
  {
    name: 'Slack webhook',
    pattern: /https:\/\/hooks\.slack\.com\/(?:services|workflows)\/[\w/-]{20,}/g,
    hints: ['hooks.slack.com'],
  },
  { name: 'Anthropic key', pattern: /\bsk-ant-[\w-]{20,}/g, hints: ['sk-ant-'] },
  {
    name: 'OpenAI key',
    pattern: /\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}/g,
    hints: ['sk-'],
    isSecret: looksRandom,
  },
  {
    name: 'Google key',
    pattern: /\bAIza[\w-]{35}(?![\w-])|\bGOCSPX-[\w-]{28}|\bya29\.[\w-]{20,}/g,
    hints: ['aiza', 'gocspx-', 'ya29.'],
  },
  {
    name: 'Stripe key',
    pattern: /\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{24,}/g,
    hints: ['sk_', 'rk_', 'whsec_'],
  },
  { name: 'npm token', pattern: /\bnpm_[A-Za-z0-9]{36}\b/g, hints: ['npm_'] },
  { name: 'PyPI token', pattern: /\bpypi-AgE[\w-]{50,}/g, hints: ['pypi-'] },
  { name: 'SendGrid key', pattern: /\bSG\.[\w-]{16,32}\.[\w-]{16,64}/g, hints: ['sg.'] },
  { name: 'Twilio key', pattern: /\bSK[0-9a-f]{32}\b/g, hints: ['sk'] },
  { name: 'Telegram token', pattern: /\b\d{8,10}:AA[\w-]{33}(?![\w-])/g, hints: [':aa'] },
  { name: 'Hugging Face token', pattern: /\bhf_[A-Za-z0-9]{34,}\b/g, hints: ['hf_'] },
  { name: 'DigitalOcean token', pattern: /\bdo[opr]_v1_[a-f0-9]{64}\b/g, hints: ['_v1_'] },
  { name: 'Vault token', pattern: /\bhv[sbr]\.[\w-]{24,}/g, hints: ['hvs.', 'hvb.', 'hvr.'] },
  {
    name: 'JSON web token',
    pattern: /\beyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]{8,}/g,
    hints: ['eyj'],
    isSecret: isJwt,
  },
  {
    name: 'password in a URL',
    pattern: /:\/\/[^\s:/@"'<>]{1,100}:(?<secret>[^\s:/@"'<>{}$]{3,200})@/g,
    hints: ['://'],
  },
  {
    name: 'authorization header',
    pattern:
      /authorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+(?<secret>[\w.~+/=-]{12,})/gi,
    hints: ['authorization'],
  },
  {
    name: 'session cookie',
    pattern:
      /cookie["']?\s*:[^\n]{0,200}?(?:sess|sid|auth)[\w-]{0,40}=(?<secret>[\w%.~+/=-]{16,999})/gi,
    hints: ['cookie'],
    isSecret: looksRandom,
  },
  {
    name: 'secret',
    pattern: new RegExp(
      `(?:${SECRET_WORDS.join('|')})["']?\\s{0,3}[:=]\\s{0,3}["']?` +
        '(?<secret>[A-Za-z0-9+/=_.~-]{16,200})',
      'gi',
    ),
    hints: ['password', 'passwd', 'secret', 'key', 'token'],
    isSecret: looksRandom,
  },
];

const HINTS = [...new Set(SHAPES.flatMap(({ hints }) => hints))].map((hint) =>
  hint.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'),
);
const MAY_HOLD_SECRET = new RegExp(HINTS.join('|'), 'i');

/** A cheap prefilter. JSON encoding hides none of the words. */
export const mayHoldSecret = (text: string): boolean => MAY_HOLD_SECRET.test(text);

function redactShape(text: string, { name, pattern, isSecret }: Shape, found: Set<string>): string {
  return text.replace(pattern, (whole: string, ...rest: unknown[]) => {
    const groups = rest.at(-1) as { secret?: string } | string | number | undefined;
    const secret = (typeof groups === 'object' ? groups.secret : undefined) ?? whole;
    if (isSecret !== undefined && !isSecret(secret)) return whole;
    found.add(name);
    const at = whole.lastIndexOf(secret);
    return `${whole.slice(0, at)}[redacted ${name}]${whole.slice(at + secret.length)}`;
  });
}

/** Returns the text without secrets, and adds their names to `found`. */
export function redact(text: string, found: Set<string> = new Set()): string {
  if (!mayHoldSecret(text)) return text;
  return SHAPES.reduce((current, shape) => redactShape(current, shape, found), text);
}
