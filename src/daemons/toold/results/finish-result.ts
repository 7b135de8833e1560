// What becomes of a tool's result before it is recorded: it is checked against the tool's schema,
// made safe to show, and stored as an artifact when it is too large for a context.
import { checkValue } from '../../../platform/check.ts';
import { derivedId } from '../../../platform/ids.ts';
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
  /** The answer to the last of the seven questions, as the log has it. */
  output: CheckedOutput;
};
/** `refused`: it was not as declared. `none`: there is none to show. */
export type CheckedOutput = {
  became: 'shown' | 'stored' | 'refused' | 'none';
  /** The kinds of secrets that were taken out of it. */
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

/** It was done, and nobody knows what a reader of its output would have to be marked with. */
export function withholdResult({ name }: Tool, error: unknown): FinishedResult {
  const why = error instanceof Fault ? error.message : 'for a reason of its own';
  return failWith({
    code: 'withheld',
    message: `${name} was done, but what it fetched cannot be looked up: ${why}`,
    hint: 'Its output is not shown. Look at what it left, or do it again if that does no harm.',
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
 * The text of a result as an artifact can hold it. What hidden characters become is longer than
 * they were, so even an output within its limit may not fit; then its longest texts are cut.
 */
function fitArtifact({ value, text }: ShownResult): string {
  let now = text;
  const cut: Record<string, unknown> = { ...value };
  while (now.length > artifactSizeBytesMax || Buffer.byteLength(now) > artifactSizeBytesMax) {
    const texts = Object.entries(cut).filter(([, one]) => typeof one === 'string');
    const [name, longest] = texts.reduce<[string, string]>(
      (most, [key, one]) => ((one as string).length > most[1].length ? [key, one as string] : most),
      ['', ''],
    );
    // Nothing that could be cut: agentd says that it is too large.
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
    // The call itself may have stored an artifact under its own id, so this has an id of its own.
    const callId = derivedId<ToolContext['callId']>('call', context.callId, 'result');
    const body = {
      ...forRun({ ...context, callId }),
      artifact: { name, mime_type: 'application/json', text },
    };
    try {
      return (await agentd.toolPutArtifact({ body }, peerOptions)).artifact.ref;
    } catch (error) {
      // What can be done again waits until it can be stored; what cannot keeps at least its
      // preview.
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
        message: `${tool.name} was done, but its result is not as its schema says`,
        hint: 'Do not count on the result; a person should look at the log of toold.',
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

  // On its way to an artifact a result is in memory a dozen times: large ones go one by one.
  const withLock = makeMutex();

  return async (tool, outcome, context) => {
    if (outcome.status !== 'completed') return failWith(outcome.error, outcome.status);
    const work = () => finish(tool, outcome.result, context);
    return countChars(outcome.result) > sizeBytesMax ? withLock(work) : work();
  };
}

/** Of all texts in a value. */
function countChars(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (value === null || typeof value !== 'object') return 0;
  return Object.values(value).reduce<number>((sum, one) => sum + countChars(one), 0);
}
