// Finds what a vendor's body would make the provider fetch or run: server-side tools, and URLs of
// images and documents. For a run that is traffic of its own box, only from another address. All
// dialects are read alike, because compatible servers mix them.

/** Tools of the provider, as policy and manifests name them. */
export type ServerTool =
  | 'model.web_search'
  | 'model.web_fetch'
  | 'model.code_execution'
  | 'model.mcp'
  | 'model.other';

/** `host` is '' for a URL that names none: policy denies it. */
export type FetchedUrl = { host: string; port: number; path: string; method?: 'GET' };

export type ProviderFetches = { tools: ServerTool[]; urls: FetchedUrl[] };

type JsonObject = Record<string, unknown>;

/** Tools that the client runs; the versions of Anthropic's end in a date. */
const CLIENT_TOOLS: readonly RegExp[] = [
  /^(custom|function|namespace|local_shell|shell|apply_patch|computer|computer_use_preview)$/,
  /^(bash|text_editor|computer|memory)_\d{8}$/,
];

/** The first that fits; any other tool is `model.other`. */
const SERVER_TOOLS: readonly [RegExp, ServerTool][] = [
  [/^web_search/, 'model.web_search'],
  [/^web_fetch/, 'model.web_fetch'],
  [/^(code_execution|code_interpreter)/, 'model.code_execution'],
  [/^mcp/, 'model.mcp'],
];

/** Members beside `tools` that make the provider do more than answer. */
const MEMBERS: Readonly<Record<string, ServerTool>> = {
  mcp_servers: 'model.mcp',
  web_search_options: 'model.web_search',
  search_parameters: 'model.web_search',
  plugins: 'model.other',
  container: 'model.code_execution',
};
const CONTENT_MEMBERS = ['system', 'messages', 'input', 'instructions'];
const URL_MEMBERS = ['image_url', 'file_url', 'video_url', 'audio_url', 'input_audio'];
/** Blocks whose members are data of the conversation, which no provider follows. */
const DATA_BLOCKS = /^(text|tool_use|server_tool_use|function_call|custom_tool_call|thinking)$/;
const DEPTH_MAX = 64;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

export function findProviderFetches(body: JsonObject): ProviderFetches {
  const tools = new Set<ServerTool>();
  const urls = new Map<string, FetchedUrl>();
  const addUrl = (value: unknown, method?: 'GET'): void => {
    const url = readUrl(value, method);
    if (url !== undefined) urls.set(JSON.stringify(url), url);
  };
  for (const tool of listOf(body.tools)) addTool(tool, tools, addUrl);
  // Codex declares tools in the conversation, too.
  for (const item of listOf(body.input))
    if (isObject(item)) for (const tool of listOf(item.tools)) addTool(tool, tools, addUrl);
  for (const [name, tool] of Object.entries(MEMBERS)) if (!isEmpty(body[name])) tools.add(tool);
  for (const server of listOf(body.mcp_servers)) if (isObject(server)) addUrl(server.url ?? '');
  for (const name of CONTENT_MEMBERS) addContent(body[name], addUrl, 0);
  return { tools: [...tools], urls: [...urls.values()] };
}

export const hasFetches = ({ tools, urls }: ProviderFetches): boolean =>
  tools.length > 0 || urls.length > 0;

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0);
}

type AddUrl = (value: unknown, method?: 'GET') => void;

function addTool(tool: unknown, tools: Set<ServerTool>, addUrl: AddUrl): void {
  if (!isObject(tool)) return;
  const type = tool.type ?? 'custom';
  if (type === 'namespace') for (const inner of listOf(tool.tools)) addTool(inner, tools, addUrl);
  if (typeof type === 'string' && CLIENT_TOOLS.some((own) => own.test(type))) return;
  const known = SERVER_TOOLS.find(([pattern]) => pattern.test(String(type)));
  tools.add(known?.[1] ?? 'model.other');
  if (tool.server_url !== undefined) addUrl(tool.server_url);
}

function addContent(value: unknown, addUrl: AddUrl, depth: number): void {
  if (depth > DEPTH_MAX) return;
  if (Array.isArray(value)) {
    for (const item of value) addContent(item, addUrl, depth + 1);
    return;
  }
  if (!isObject(value) || DATA_BLOCKS.test(String(value.type))) return;
  for (const name of URL_MEMBERS) {
    const url = value[name];
    if (typeof url === 'string') addUrl(url, 'GET');
    else if (isObject(url) && url.url !== undefined) addUrl(url.url, 'GET');
  }
  const { source } = value;
  if (isObject(source) && source.url !== undefined) addUrl(source.url, 'GET');
  for (const name of ['content', 'output', 'source']) addContent(value[name], addUrl, depth + 1);
}

/** Inline data is not fetched. */
function readUrl(value: unknown, method: 'GET' | undefined): FetchedUrl | undefined {
  const text = typeof value === 'string' ? value.trim() : '';
  if (/^data:/i.test(text)) return undefined;
  const given = method === undefined ? {} : { method };
  const url = URL.parse(text);
  const isWeb = url !== null && (url.protocol === 'https:' || url.protocol === 'http:');
  if (!isWeb) return { host: '', port: 0, path: '', ...given };
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  return { host: url.hostname, port, path: url.pathname, ...given };
}
