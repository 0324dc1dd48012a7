// The same extension in JavaScript: prints the state of the branch, then saves one item more.
const fs = require('fs'), file = process.argv[2];
const entries = fs.readFileSync(file, 'utf8').trimEnd().split('\n').map(line => JSON.parse(line)).slice(1);
const byId = new Map(entries.map(entry => [entry.id, entry])), path = [];
for (let entry = entries.at(-1); entry; entry = byId.get(entry.parentId)) path.unshift(entry);
const { data } = path.findLast(entry => entry.type === 'custom' && entry.customType === 'todo');
console.log(JSON.stringify(data));
const base = { type: 'custom', id: '0a0de0de', parentId: path.at(-1).id, timestamp: new Date().toISOString() };
const next = { ...base, customType: 'todo', data: { ...data, items: [...data.items, 'from node'] } };
fs.appendFileSync(file, JSON.stringify(next) + '\n');
