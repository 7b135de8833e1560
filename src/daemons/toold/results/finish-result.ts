// Finishes a tool's result before it is recorded: checks it against the tool's schema, makes it
// safe to show, and stores it as an artifact when it is too large for a context.
import { checkValue } from '../../../platform/check.ts';
import { deriveId } from '../../../platform/ids.ts';
import { sha256Hex } from '../../../platform/json.ts';
import { makeMutex } from '../../../platform/mutex.ts';
import { artifactSizeBytesMax } from '../../../wire/agentd/artifacts.ts';
import { Fault } from '../../../wire/errors.ts';
import type { CallError } from '../rules.ts';
import type { SavedOutcome } from '../store/store.ts';
import {
  type AgentdClient,
  forRun,
  peerOptions,
  type Tool,
  type ToolContext,
  type ToolOutcome,
} from '../tools/tool.ts';
import { makeSafe, type ShownResult, showResult, truncateText } from './output.ts';

export type FinishedResult = {
  saved: SavedOutcome;
  result: Record<string, unknown> | undefined;
  error: CallError | undefined;
  sizeBytes: number;
  /** The artifact that holds a result too large to show. */
  artifact: string | undefined;
  output: CheckedOutput;
};
/** `refused`: it does not match its schema. `none`: there is no output. */
export type CheckedOutput = {
  became: 'shown' | 'stored' | 'refused' | 'none';
  /** The kinds of secrets that were removed. */
  redacted: readonly string[];
};

export function failWith(
  error: CallError,
  status: 'failed' | 'canceled' = 'failed',
): FinishedResult {
  const { code, message, hint, retry } = error;
  const found = new Set<string>();
  const clean = { code, message: makeSafe(message, found), hint: makeSafe(hint, found), retry };
  const text = JSON.stringify(clean);
  return {
    saved: { status, result: null, error: text, hash: sha256Hex(text) },
    result: undefined,
    error: clean,
    sizeBytes: 0,
    artifact: undefined,
    output: { became: code === 'bad_output' ? 'refused' : 'none', redacted: [...found].sort() },
  };
}

/** For an effect that happened, but whose output cannot be marked. */
export function withholdResult({ name }: Tool, error: unknown): FinishedResult {
  const why = error instanceof Fault ? error.message : 'internal error';
  return failWith({
    code: 'withheld',
    message: `${name} was done, but its downloads cannot be determined: ${why}`,
    hint: 'Its output is withheld. Check what it changed, or repeat it if that is harmless.',
    retry: false,
  });
}

export function completeWith(shown: ShownResult, artifact?: string): FinishedResult {
  const { value, text, redacted } = shown;
  return {
    saved: { status: 'completed', result: text, error: null, hash: sha256Hex(text) },
    result: value,
    error: undefined,
    sizeBytes: Buffer.byteLength(text),
    artifact,
    output: { became: artifact === undefined ? 'shown' : 'stored', redacted },
  };
}

/**
 * Returns the result as text that fits an artifact. Escaping hidden characters makes a text longer,
 * so even an output within its limit may not fit; then its longest texts are cut.
 */
function fitArtifact({ value, text }: ShownResult): string {
  let now = text;
  const cut: Record<string, unknown> = { ...value };
  while (now.length > artifactSizeBytesMax || Buffer.byteLength(now) > artifactSizeBytesMax) {
    const texts = Object.entries(cut).filter(([, member]) => typeof member === 'string');
    const [name, longest] = texts.reduce<[string, string]>(
      (max, [key, text]) => ((text as string).length > max[1].length ? [key, text as string] : max),
      ['', ''],
    );
    // Nothing to cut: agentd rejects it as too large.
    if (longest.length < 1_024) return text;
    cut[name] = truncateText(longest, Math.floor(longest.length / 2));
    now = JSON.stringify({ ...cut, shortened: true });
  }
  return now;
}

export type FinishResult = (
  tool: Tool,
  outcome: ToolOutcome,
  context: ToolContext,
) => Promise<FinishedResult>;

export function makeFinishResult(options: {
  agentd: Pick<AgentdClient, 'toolPutArtifact'>;
  sizeBytesMax: number;
}): FinishResult {
  const { agentd, sizeBytesMax } = options;

  const store = async (tool: Tool, text: string, context: ToolContext): Promise<string | null> => {
    const name = `${tool.name}-result.json`;
    // The call may have stored an artifact under its own id, so this uses another.
    const callId = deriveId<ToolContext['callId']>('call', context.callId, 'result');
    const body = {
      ...forRun({ ...context, callId }),
      artifact: { name, mime_type: 'application/json', text },
    };
    try {
      return (await agentd.toolPutArtifact({ body }, peerOptions)).artifact.ref;
    } catch (error) {
      // An idempotent call is repeated later; any other keeps at least its preview.
      const later = error instanceof Fault && (error.retry || error.code === 'stale_fence');
      if (later && tool.idempotent) throw error;
      return null;
    }
  };

  const finish = async (tool: Tool, result: Record<string, unknown>, context: ToolContext) => {
    const checked = checkValue(tool.output, result);
    if (!checked.success) {
      return failWith({
        code: 'bad_output',
        message: `${tool.name} was done, but its result does not match its schema`,
        hint: 'Do not rely on the result; an operator should check the log of toold.',
        retry: false,
      });
    }
    const shown = showResult(checked.data);
    const sizeBytes = Buffer.byteLength(shown.text);
    if (sizeBytes <= sizeBytesMax) return completeWith(shown);
    const artifact = await store(tool, fitArtifact(shown), context);
    const short = { artifact, size_bytes: sizeBytes, preview: truncateText(shown.text) };
    const { redacted } = shown;
    return completeWith({ ...showResult(short), redacted }, artifact ?? undefined);
  };

  // Storing a result needs about a dozen copies in memory, so large ones go one by one.
  const withLock = makeMutex();

  return async (tool, outcome, context) => {
    if (outcome.status !== 'completed') return failWith(outcome.error, outcome.status);
    const work = () => finish(tool, outcome.result, context);
    return countChars(outcome.result) > sizeBytesMax ? withLock(work) : work();
  };
}

function countChars(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (value === null || typeof value !== 'object') return 0;
  return Object.values(value).reduce<number>((sum, member) => sum + countChars(member), 0);
}
