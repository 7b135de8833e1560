// agentctl sendmail: takes a mail from standard input with the options of sendmail, and ends with
// the exit statuses that its callers know (sysexits.h).
import { Fault, fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';

const EXIT = { usage: 64, data: 65, noUser: 67, noPermission: 77, later: 75 } as const;
/** Options of sendmail that say nothing here, with and without a value. */
const IGNORED = /^-(i|oi|o[deitmQ].*|n|v|m|U|bm|G|E|B.+|A[a-z])$/;
const WITH_VALUE = /^-[fFrRNhLpqVXBOo]$/;
const ATTACHED = /^-[fFrRNhLpVXO]./;

export async function sendmail({ args, runtime }: Session): Promise<number> {
  const options = readOptions(args.positionals);
  if (options.problem !== undefined) return fail(options.problem, EXIT.usage);
  const raw = await readAll(options.endsAtDot);
  const body = {
    to: options.to.map(stripBrackets),
    reads_recipients: options.readsRecipients,
    ...(options.isBounce ? { is_bounce: true } : {}),
    raw_base64: raw.toString('base64'),
  };
  try {
    await runtime().call('maild', 'submitMail', { body });
    return 0;
  } catch (error) {
    return fail((error as Error).message, error instanceof Fault ? statusOf(error) : EXIT.later);
  }
}

type SendmailOptions = {
  to: string[];
  readsRecipients: boolean;
  isBounce: boolean;
  endsAtDot: boolean;
  problem?: string;
};

export function readOptions(words: readonly string[]): SendmailOptions {
  const options: SendmailOptions = {
    to: [],
    readsRecipients: false,
    isBounce: false,
    endsAtDot: true,
  };
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    if (word === '--') {
      options.to.push(...words.slice(i + 1));
      break;
    }
    if (!word.startsWith('-') || word === '-') options.to.push(word);
    else if (/^-(t|i|oi|ti|it)$/.test(word)) {
      options.readsRecipients ||= word.includes('t');
      if (word.includes('i')) options.endsAtDot = false;
    } else if (WITH_VALUE.test(word)) {
      if (/^-[fr]$/.test(word)) options.isBounce = isNullSender(words[i + 1]);
      i++;
    } else if (ATTACHED.test(word)) {
      if (/^-[fr]/.test(word)) options.isBounce = isNullSender(word.slice(2));
    } else if (!IGNORED.test(word)) {
      return { ...options, problem: `the option ${word} of sendmail is not supported` };
    }
  }
  if (options.to.length === 0 && !options.readsRecipients)
    return { ...options, problem: 'no recipient: name one, or give -t to read them from the mail' };
  return options;
}

const isNullSender = (value: string | undefined): boolean => value === '<>' || value === '';
const stripBrackets = (address: string): string => address.replace(/^<(.*)>$/, '$1');

/** Without -i, a line with a dot alone ends the mail. */
async function readAll(endsAtDot: boolean): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > SIZE_BYTES_MAX) throw fault('too_large', 'the mail is larger than 10 MiB');
    chunks.push(chunk);
  }
  const all = Buffer.concat(chunks);
  const end = endsAtDot ? /(^|\n)\.\r?\n/.exec(all.toString('latin1')) : null;
  return end === null ? all : all.subarray(0, end.index + end[1]!.length);
}

const SIZE_BYTES_MAX = 10 * 1024 * 1024;

function statusOf({ code }: Fault): number {
  switch (code) {
    case 'not_found':
      return EXIT.noUser;
    case 'denied':
    case 'forbidden_caller':
    case 'unauthenticated':
      return EXIT.noPermission;
    case 'bad_request':
    case 'too_large':
      return EXIT.data;
    default:
      return EXIT.later;
  }
}

function fail(message: string, status: number): number {
  process.stderr.write(`sendmail: ${message}\n`);
  return status;
}
