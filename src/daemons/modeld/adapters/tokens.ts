// Bounds the input tokens of a body before the call, so that budgets can reserve its cost.
//
// The bound: every tokenizer in use (byte-level BPE as at OpenAI and Anthropic, SentencePiece with
// byte fallback as in Llama, Gemma, Mistral) uses at least one byte of UTF-8 per token, and a JSON
// body is never shorter than its text. So bytes of body ≥ tokens of text, typically by a factor of
// 3 to 4; role markers and tool wrappers fit into the JSON syntax. Text that a vendor adds, and
// images, whose cost does not depend on their size, are added to that.
import type { DialectName } from '../../../wire/modeld.ts';
import type { EmbedInput } from '../rules/client-embeddings.ts';
import { asList, asObject, type JsonObject } from './reading.ts';

const OVERHEAD_TOKENS = 64;
/** Anthropic adds up to about 530 tokens to a request with tools; this is twice that. */
const TOOLS_TOKENS = 1_024;
/** Above what either vendor counts for one image at the highest detail. */
const IMAGE_TOKENS = 12_000;

/** Only content lists, and lists of a tool's output, can contain media. */
function countMedia(body: JsonObject): { images: number; isOpenEnded: boolean } {
  const found = { images: 0, isOpenEnded: false };
  for (const message of [...asList(body.messages), ...asList(body.input)]) {
    const item = asObject(message);
    countBlocks(asList(item?.content), found);
    countBlocks(asList(item?.output), found);
  }
  return found;
}

function countBlocks(blocks: unknown[], found: { images: number; isOpenEnded: boolean }): void {
  for (const value of blocks) {
    const block = asObject(value);
    switch (block?.type) {
      case 'text':
        break;
      case 'image':
      case 'image_url':
      case 'input_image':
        found.images++;
        break;
      case 'tool_result':
        countBlocks(asList(block.content), found);
        break;
      case 'file':
      case 'input_file':
      case 'document':
        if (!hasInlineText(block)) found.isOpenEnded = true;
        break;
      case 'container_upload':
        found.isOpenEnded = true;
        break;
    }
  }
}

/** Inline text is counted by its bytes; a PDF's pages and linked files are not. */
function hasInlineText(block: JsonObject): boolean {
  return asObject(block.source)?.type === 'text';
}

export function boundInputTokens(options: {
  body: JsonObject;
  sizeBytes: number;
  dialect: DialectName;
  /** An upper bound, because no provider accepts more input. */
  contextTokens: number;
}): number {
  const { body, sizeBytes, contextTokens } = options;
  const { images, isOpenEnded } = countMedia(body);
  const hasServerSide = usesServerTools(body, options.dialect);
  if (isOpenEnded || hasServerSide) return contextTokens;
  const tools = asList(body.tools).length > 0 ? TOOLS_TOKENS : 0;
  const tokens = sizeBytes + OVERHEAD_TOKENS + tools + images * IMAGE_TOKENS;
  return Math.min(tokens, contextTokens);
}

/** Tools that run at the client: the model only writes the call. */
const CLIENT_TOOLS: Record<DialectName, ReadonlySet<unknown>> = {
  anthropic: new Set([undefined, null, 'custom']),
  openai: new Set(['function', 'custom']),
  responses: new Set(['function', 'custom', 'namespace', 'local_shell', 'apply_patch']),
};

/** Tools that run at the vendor add their results to the input. */
function usesServerTools(body: JsonObject, dialect: DialectName): boolean {
  const known = CLIENT_TOOLS[dialect];
  const added = asList(body.input).flatMap((item) => asList(asObject(item)?.tools));
  return [...asList(body.tools), ...added].some((tool) => !known.has(asObject(tool)?.type));
}

const CHARS_PER_TOKEN_GUESS = 4;
const IMAGE_TOKENS_GUESS = 1_600;
const FILE_TOKENS_GUESS = 3_000;
const DEPTH_MAX = 64;

/** Guesses the input tokens of an Anthropic body, for a provider that does not count them. */
export function estimateInputTokens({ system, messages, tools }: JsonObject): number {
  let tokens = 0;
  let chars = 0;
  const add = (value: unknown, depth: number): void => {
    if (typeof value === 'string') chars += value.length;
    else if (typeof value === 'number' || typeof value === 'boolean') chars += 4;
    else if (typeof value === 'object' && value !== null && depth < DEPTH_MAX) {
      const { type, source } = value as JsonObject;
      if (asObject(source) !== undefined && asObject(source)?.type !== 'text')
        tokens += type === 'image' ? IMAGE_TOKENS_GUESS : FILE_TOKENS_GUESS;
      else
        for (const [name, inner] of Object.entries(value)) {
          if (!Array.isArray(value)) chars += name.length;
          add(inner, depth + 1);
        }
    }
  };
  for (const part of [system, messages, tools]) add(part, 0);
  return Math.max(1, tokens + Math.ceil(chars / CHARS_PER_TOKEN_GUESS));
}

export function boundEmbedTokens(input: readonly EmbedInput[]): number {
  let tokens = 0;
  for (const item of input)
    tokens += (typeof item === 'string' ? Buffer.byteLength(item) : item.length) + OVERHEAD_TOKENS;
  return tokens;
}
