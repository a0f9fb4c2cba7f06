//! Caches of observed objects, reduced to the fields that decisions read.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use kube::ResourceExt;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;

/// Namespace and name; the namespace of cluster-scoped objects is empty.
pub(crate) type ObjectKey = (String, String);

/// Objects of one kind, by their keys.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    inner: Arc<CacheContent<T>>,
}

#[derive(Debug)]
struct CacheContent<T> {
    objects: RwLock<HashMap<ObjectKey, T>>,
    /// True once the first list was stored.
    complete: watch::Sender<bool>,
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T: PartialEq + Send + Sync + 'static> Cache<T> {
    pub(crate) fn new() -> Self {
        let objects = RwLock::new(HashMap::new());
        Self { inner: Arc::new(CacheContent { objects, complete: watch::channel(false).0 }) }
    }

    /// Follows a watch until it ends. `read` reduces an object; `changed` is called for each object that is new, gone,
    /// or different from before.
    pub(crate) async fn follow<K>(
        self,
        events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send,
        read: impl Fn(K) -> T + Send,
        changed: impl Fn(&T) + Send,
    ) where
        K: kube::Resource + Clone + Debug + Send + 'static,
    {
        let mut events = std::pin::pin!(events.default_backoff());
        // A list replaces the cache only once the list is complete.
        let mut listed: HashMap<ObjectKey, T> = HashMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    let key = key(&object);
                    listed.insert(key, read(object));
                }
                Ok(Event::InitDone) => self.replace(std::mem::take(&mut listed), &changed),
                Ok(Event::Apply(object)) => {
                    let key = key(&object);
                    self.store(&key, read(object), &changed);
                }
                Ok(Event::Delete(object)) => self.remove(&key(&object), &changed),
                Err(error) => tracing::warn!("a watch failed; it is retried: {error}"),
            }
        }
    }

    fn replace(&self, listed: HashMap<ObjectKey, T>, changed: &impl Fn(&T)) {
        let mut objects = self.inner.objects.write();
        let before = std::mem::replace(&mut *objects, listed);
        let objects = RwLockWriteGuard::downgrade(objects);
        for (_, object) in before.iter().filter(|(key, _)| !objects.contains_key(*key)) {
            changed(object);
        }
        for (_, object) in objects.iter().filter(|(key, object)| before.get(*key) != Some(*object)) {
            changed(object);
        }
        self.inner.complete.send_replace(true);
    }

    fn store(&self, key: &ObjectKey, object: T, changed: &impl Fn(&T)) {
        let mut objects = self.inner.objects.write();
        // Stored even if it compares as equal: fields that the comparison ignores may have changed.
        let before = objects.insert(key.clone(), object);
        let objects = RwLockWriteGuard::downgrade(objects);
        if let Some(object) = objects.get(key).filter(|object| before.as_ref() != Some(*object)) {
            changed(object);
        }
    }

    fn remove(&self, key: &ObjectKey, changed: &impl Fn(&T)) {
        let removed = self.inner.objects.write().remove(key);
        if let Some(object) = &removed {
            changed(object);
        }
    }

    /// Returns once the first list was stored.
    pub(crate) async fn complete(&self) {
        // Cannot fail: this cache owns the sender.
        let _ = self.inner.complete.subscribe().wait_for(|complete| *complete).await;
    }

    pub(crate) fn is_complete(&self) -> bool {
        *self.inner.complete.borrow()
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<MappedRwLockReadGuard<'_, T>> {
        let key = (namespace.to_owned(), name.to_owned());
        RwLockReadGuard::try_map(self.read(), |objects| objects.get(&key)).ok()
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, HashMap<ObjectKey, T>> {
        // One thread holds read locks of several caches at once: a fair lock could deadlock it with a waiting writer.
        self.inner.objects.read_recursive()
    }
}

fn key<K: kube::Resource>(object: &K) -> ObjectKey {
    (object.namespace().unwrap_or_default(), object.name_any())
}
