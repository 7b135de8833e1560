// Finds personal data by its shape: addresses of mail, phone numbers, and numbers with a checksum.
// What a text means cannot be seen this way. Pure.

type PersonalShape = { name: string; pattern: RegExp; isPersonal?: (value: string) => boolean };

const digitsOf = (text: string): string => text.replace(/\D/g, '');

/** The checksum of card numbers (Luhn). */
function isCardNumber(text: string): boolean {
  const digits = [...digitsOf(text)].map(Number).toReversed();
  if (digits.every((digit) => digit === digits[0])) return false;
  const sum = digits.reduce((total, digit, i) => {
    const doubled = digit * (1 + (i % 2));
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}

/** The checksum of account numbers (ISO 13616). */
function isIban(text: string): boolean {
  const value = text.replace(/ /g, '');
  const moved = value.slice(4) + value.slice(0, 4);
  let rest = 0;
  for (const c of moved)
    for (const digit of String(Number.parseInt(c, 36))) rest = (rest * 10 + Number(digit)) % 97;
  return rest === 1;
}

/** Domains that standards reserve for examples, and senders that are no person. */
const NO_PERSON =
  /^(?:git|hg|svn|no-?reply|root|postmaster)@|@(?:.+\.)?(?:example\.\w+|localhost)$/i;
const FILE_NAME = /\.(?:png|jpe?g|svg|js|ts|css|json)$/i;

const SHAPES: readonly PersonalShape[] = [
  {
    name: 'mail address',
    pattern: /(?<![\w.+-])[\w.+-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}(?![\w@-])/gi,
    isPersonal: (value) => !NO_PERSON.test(value) && !FILE_NAME.test(value),
  },
  {
    name: 'phone number',
    pattern: /(?<![\w.+/-])\+[1-9]\d{0,2}(?:[ .-]?\(?\d{1,5}\)?){2,6}(?![\w/-])/g,
    isPersonal: (value) => /^\d{8,15}$/.test(digitsOf(value)),
  },
  {
    name: 'phone number',
    pattern: /(?<![\w.-])\([2-9]\d\d\) ?[2-9]\d\d[ .-]\d{4}(?![\w-])/g,
  },
  {
    name: 'card number',
    pattern:
      /(?<![\w.-])[3-6]\d{3}(?:([ -]?)\d{4}\1\d{4}\1\d{1,7}|([ -])\d{6}\2\d{5})(?![\w.-]\w)/g,
    isPersonal: (value) => digitsOf(value).length >= 13 && isCardNumber(value),
  },
  {
    name: 'bank account number',
    pattern: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b/g,
    isPersonal: isIban,
  },
  {
    name: 'social security number',
    pattern: /(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])/g,
  },
];

/** The kinds of personal data in a text. */
export function findPersonalData(text: string): string[] {
  const kinds = SHAPES.filter(({ pattern, isPersonal = () => true }) =>
    text.matchAll(pattern).some(([value]) => isPersonal(value)),
  ).map(({ name }) => name);
  return [...new Set(kinds)];
}
