// Reads messages as modeld keeps them: its own neutral form, or what a client and a provider sent,
// in Anthropic's dialect or one of OpenAI's.

export type SpokenPart =
  | { kind: 'text' | 'thinking'; text: string }
  | { kind: 'call'; tool: string; arguments: unknown }
  | { kind: 'result'; text: string };

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null;
const toText = (value: unknown): string =>
  typeof value === 'string' ? value : (JSON.stringify(value) ?? '');

/** Returns the parts of a recorded response. */
export function readResponseParts(response: unknown): SpokenPart[] {
  if (!isFields(response)) return typeof response === 'string' ? readContent(response) : [];
  if (Array.isArray(response.choices)) return response.choices.slice(0, 1).flatMap(readChoice);
  if (Array.isArray(response.output)) return response.output.flatMap(readPart);
  return readContent(response.parts ?? response.content);
}

const readChoice = (choice: unknown): SpokenPart[] =>
  isFields(choice) ? readMessageParts(choice.message) : [];

export function readMessageParts(message: unknown): SpokenPart[] {
  if (!isFields(message)) return readContent(message);
  // A tool's result in OpenAI's chat dialect is a message of its own.
  if (message.role === 'tool') return [{ kind: 'result', text: readPlainText(message.content) }];
  if (message.type !== undefined && message.role === undefined) return readPart(message);
  const calls = Array.isArray(message.tool_calls) ? message.tool_calls.flatMap(readPart) : [];
  return [...readContent(message.parts ?? message.content), ...calls];
}

/** Returns the messages after the last response: what the caller had to say since. */
export function listNewMessages(messages: readonly unknown[]): unknown[] {
  const isResponse = (message: unknown): boolean =>
    isFields(message) &&
    (message.role === 'assistant' ||
      ['function_call', 'custom_tool_call', 'reasoning'].includes(String(message.type)));
  const isInstruction = (message: unknown): boolean =>
    isFields(message) && (message.role === 'system' || message.role === 'developer');
  return messages
    .slice(messages.findLastIndex(isResponse) + 1)
    .filter((message) => !isInstruction(message));
}

function readContent(content: unknown): SpokenPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ kind: 'text', text: content }];
  return Array.isArray(content) ? content.flatMap(readPart) : [];
}

function readPart(part: unknown): SpokenPart[] {
  if (!isFields(part)) return readContent(part);
  switch (part.type) {
    case 'text':
    case 'input_text':
    case 'output_text':
      return readContent(part.text);
    case 'message':
      return readContent(part.content);
    case 'thinking':
      return [{ kind: 'thinking', text: toText(part.thinking ?? part.text ?? '') }];
    case 'reasoning':
      return [{ kind: 'thinking', text: readPlainText(part.summary) }];
    case 'tool_call':
      return [{ kind: 'call', tool: toText(part.name), arguments: part.arguments }];
    case 'tool_use':
      return [{ kind: 'call', tool: toText(part.name), arguments: part.input }];
    case 'function_call':
      return [readCall(part, part.arguments)];
    case 'custom_tool_call':
      return [readCall(part, part.input)];
    case 'function':
      return isFields(part.function) ? [readCall(part.function, part.function.arguments)] : [];
    case 'tool_result':
      return [{ kind: 'result', text: readPlainText(part.content) }];
    case 'function_call_output':
    case 'custom_tool_call_output':
      return [{ kind: 'result', text: readPlainText(part.output) }];
    default:
      return [{ kind: 'text', text: `[${toText(part.type ?? 'part')}]` }];
  }
}

function readCall(call: Fields, input: unknown): SpokenPart {
  let value = input;
  try {
    if (typeof input === 'string') value = JSON.parse(input);
  } catch {
    // A model may write no JSON; what it wrote is shown then.
  }
  return { kind: 'call', tool: toText(call.name), arguments: value };
}

/** The texts of a content; other parts as their type in brackets. */
function readPlainText(content: unknown): string {
  if (!Array.isArray(content)) return content === undefined ? '' : toText(content);
  return content
    .flatMap(readPart)
    .map((part) => ('text' in part ? part.text : ''))
    .join('\n');
}
