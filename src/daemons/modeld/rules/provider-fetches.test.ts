// Tests what a vendor's body would make the provider fetch or run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findProviderFetches, hasFetches } from './provider-fetches.ts';

const user = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
const url = (host: string, port = 443, path = '/a.png') => ({ host, port, path, method: 'GET' });
const image = (link: string) => ({ type: 'image', source: { type: 'url', url: link } });

const urls: [string, object, object[]][] = [
  ["Anthropic's image", user(image('https://a.example/a.png')), [url('a.example')]],
  [
    'a document in a tool result',
    user({
      type: 'tool_result',
      tool_use_id: 't',
      content: [{ type: 'document', source: { type: 'url', url: 'http://b.example:8080/a.png' } }],
    }),
    [url('b.example', 8080)],
  ],
  [
    "an image in a document's own content",
    user({
      type: 'document',
      source: { type: 'content', content: [image('https://c.example/a.png')] },
    }),
    [url('c.example')],
  ],
  [
    "OpenAI's image",
    user({ type: 'image_url', image_url: { url: 'https://d.example/a.png' } }),
    [url('d.example')],
  ],
  [
    'an image and a file of the Responses API',
    {
      input: [
        { role: 'user', content: [{ type: 'input_image', image_url: 'https://e.example/a.png' }] },
        {
          type: 'function_call_output',
          output: [{ type: 'input_file', file_url: 'https://f.example/a.png' }],
        },
      ],
    },
    [url('e.example'), url('f.example')],
  ],
  [
    'the same twice, and two hosts',
    user(
      image('https://a.example/a.png'),
      image('https://A.example/a.png'),
      image('http://[::1]/a.png'),
    ),
    [url('a.example'), url('[::1]', 80)],
  ],
  ['another scheme has no host', user(image('gs://bucket/a.png')), [url('', 0, '')]],
  ['inline data', user({ type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } }), []],
  [
    'base64 and file ids',
    user(
      { type: 'image', source: { type: 'base64', data: 'AA' } },
      { type: 'document', source: { type: 'file', file_id: 'f' } },
    ),
    [],
  ],
  [
    'links in text and in arguments of tools',
    {
      messages: [
        { role: 'user', content: 'see https://x.example' },
        {
          role: 'assistant',
          content: [
            { type: 'tool_use', id: 't', name: 'n', input: { image_url: 'https://x.example' } },
          ],
        },
      ],
      tools: [{ name: 'n', input_schema: { properties: { image_url: { type: 'string' } } } }],
    },
    [],
  ],
];
for (const [name, body, expected] of urls)
  test(`URLs: ${name}`, () => {
    assert.deepEqual(findProviderFetches({ ...body }), { tools: [], urls: expected });
  });

const tools: [object, string[]][] = [
  [
    {
      tools: [
        { name: 'a', input_schema: {} },
        { type: 'custom', name: 'b' },
      ],
    },
    [],
  ],
  [{ tools: [{ type: 'bash_20250124' }, { type: 'text_editor_20250728' }] }, []],
  [{ tools: [{ type: 'function', function: { name: 'web_search' } }] }, []],
  [{ tools: [{ type: 'web_search_20260318', name: 'web_search' }] }, ['model.web_search']],
  [{ tools: [{ type: 'web_search_preview' }] }, ['model.web_search']],
  [{ tools: [{ type: 'web_fetch_20250910' }] }, ['model.web_fetch']],
  [
    { tools: [{ type: 'code_execution_20250825' }, { type: 'code_interpreter' }] },
    ['model.code_execution'],
  ],
  [{ tools: [{ type: 'something_new_20300101' }] }, ['model.other']],
  [{ tools: [{ type: 7 }] }, ['model.other']],
  [{ tools: [{ type: 'namespace', tools: [{ type: 'web_search' }] }] }, ['model.web_search']],
  [
    { input: [{ type: 'additional_tools', role: 'developer', tools: [{ type: 'web_search' }] }] },
    ['model.web_search'],
  ],
  [{ input: [{ type: 'additional_tools', tools: [{ type: 'custom', name: 'exec' }] }] }, []],
  [{ web_search_options: {} }, ['model.web_search']],
  [{ web_search_options: null, mcp_servers: [] }, []],
  [{ container: { skills: [] } }, ['model.code_execution']],
];
for (const [body, expected] of tools)
  test(`tools: ${JSON.stringify(body)}`, () => {
    const found = findProviderFetches({ ...body });
    assert.deepEqual(found.tools, expected);
    assert.equal(hasFetches(found), expected.length > 0);
  });

test('a remote MCP server is a tool and a host', () => {
  const remote = { host: 'mcp.example', port: 443, path: '/sse' };
  for (const body of [
    { mcp_servers: [{ type: 'url', url: 'https://mcp.example/sse', name: 'm' }] },
    { tools: [{ type: 'mcp', server_label: 'm', server_url: 'https://mcp.example/sse' }] },
  ])
    assert.deepEqual(findProviderFetches(body), { tools: ['model.mcp'], urls: [remote] });
});
